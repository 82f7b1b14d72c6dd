"""The engine's clock, as far as this process knows it.

The script judges; this estimate only lets a commit carry times that the script will agree with. Every answer of the
engine tells its time. That answer was on its way for a while, so `engine time - our monotonic time` measured at its
arrival is never too large: the largest of these differences is the best, and is still never ahead of the engine.
"""

from __future__ import annotations

import time


class EngineClock:
    """Milliseconds of the engine's clock, never ahead of it unless that clock was set back."""

    def __init__(self) -> None:
        self._offset: float = float("-inf")

    @property
    def known(self) -> bool:
        return self._offset != float("-inf")

    def observe(self, engine_ms: int) -> None:
        """Take in a time that an answer carried."""
        self._offset = max(self._offset, engine_ms - _monotonic_ms())

    def correct(self, engine_ms: int) -> None:
        """The engine said that we are ahead of it: its clock was set back, or ours runs faster."""
        self._offset = engine_ms - _monotonic_ms()

    def now(self) -> int:
        """The engine's time. Only meaningful once an answer was observed."""
        return int(_monotonic_ms() + self._offset)


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
