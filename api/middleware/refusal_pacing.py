"""Refusals for want of room, spread over time.

Whoever asks again at once, whatever `Retry-After` says, would otherwise use up the time that accepted requests need:
most of what a refusal costs is the exchange itself. So beyond a modest number a second they wait for it.
"""

from __future__ import annotations

from typing import Final

EVERY_S: Final = 0.01
"""A refusal takes about a tenth of this."""
LONGEST_S: Final = 2.0
"""Nobody waits longer for a refusal, however many there are."""


class RefusalPacer:
    """Tells each refusal how long to wait."""

    def __init__(self) -> None:
        self._next: float = 0.0

    def delay(self, now: float) -> float:
        """Seconds; none as long as there are few."""
        delay = min(max(self._next - now, 0.0), LONGEST_S)
        self._next = now + delay + EVERY_S
        return delay
