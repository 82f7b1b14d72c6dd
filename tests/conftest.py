"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does, and is no fault.
settings.register_profile("layby", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("layby")
