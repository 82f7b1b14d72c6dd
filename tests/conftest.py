"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does, and is no fault.
settings.register_profile("layby", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("layby")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means: two workers for each processor, since more than half of the time is spent waiting for
    engines, servers and deadlines; but no more than eight, each of which starts some of them, unless there are more
    processors."""
    processors = os.cpu_count() or 1
    return max(processors, min(2 * processors, 8))
