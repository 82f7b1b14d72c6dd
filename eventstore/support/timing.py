"""How long Layby waits where nothing but a choice of ours decides it. Tests shorten it; operators cannot set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All in seconds."""

    connect_s: float = 2.0
    """How long an engine may take to accept a connection."""
    reply_s: float = 5.0
    """How long an engine may take to the next reply before it counts as away: longer than a slow disk takes to sync."""
    probe_s: float = 1.0
    """How long an engine that is known to be away may take to answer a ping."""
    retry_s: float = 2.0
    """How long a request is tried again before it is refused with 503. An attempt under way may outlast it."""
    keys_read_every_s: float = 1.0
    """How often each process asks the store whether its API keys have changed."""
    keys_followed_after_s: float = 2.0
    """How long after a change of the API keys every process that reaches the store applies it."""
    heartbeat_s: float = 15.0
    """How often a stream that has nothing to send sends a heartbeat: proxies cut connections that are silent longer."""
    demo_step_s: float = 0.4
    """Pause between the steps of `layby demo`, so that they can be read as they happen."""
    demo_decision_s: float = 1.5
    """How long `layby demo --auto` takes to decide."""


TIMING: Final = Timing()
"""As Layby runs outside of tests."""
