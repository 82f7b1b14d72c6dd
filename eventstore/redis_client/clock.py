"""The engine's clock, as far as this process knows it.

Each engine has a clock of its own, and a partition lives by that of the engine that serves it: `Clocks` keeps an
estimate for each, so that it does not matter which engine that is, and when another takes over.

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
        self._offset = max(self._offset, engine_ms - monotonic_ms())

    def settle(self, engine_ms: int, asked_ms: float) -> None:
        """Take in the answer to a question that was asked at `asked_ms` of our own clock. The engine showed this time
        between then and now, so an estimate that is further ahead is that of another engine, and is given up."""
        self._offset = max(min(self._offset, engine_ms - asked_ms), engine_ms - monotonic_ms())

    def correct(self, engine_ms: int) -> None:
        """The engine said that we are ahead of it: its clock was set back, or ours runs faster."""
        self._offset = engine_ms - monotonic_ms()

    def now(self) -> int:
        """The engine's time. Only meaningful once an answer was observed."""
        return int(monotonic_ms() + self._offset)

    def here(self, engine_ms: int) -> float:
        """When our own monotonic clock, ms, will show what the engine's shows at this time. At once, if that is
        unknown."""
        return engine_ms - self._offset if self.known else 0.0


class Clocks:
    """The clocks of a store: one for all where one engine serves it, else one for each partition."""

    def __init__(self, partitions: int, *, shared: bool) -> None:
        self.store: EngineClock = EngineClock()
        """That of what belongs to no partition."""
        self._of: list[EngineClock] = [self.store if shared else EngineClock() for _ in range(partitions)]

    def of(self, partition: int) -> EngineClock:
        """The clock that a partition is judged by."""
        return self._of[partition]


def monotonic_ms() -> float:
    """Our own clock, which is never set."""
    return time.monotonic() * 1000
