"""What a benchmark is: figures of several sides, taken in turn in one run, and the ratios that are judged."""

from __future__ import annotations

import math
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

Size = Literal["quick", "full"]
Better = Literal["more", "less", ""]
_T = TypeVar("_T")


class CannotRun(Exception):
    """What this machine lacks for a side or for a whole benchmark. It is left out, with this reason."""


@dataclass(slots=True)
class Series:
    """What one side came to, a value for each round. `better` says which way is good; "" where neither is."""

    side: str
    unit: str
    better: Better = ""
    values: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Goal:
    """`one` is to be at least, or at most, `limit` times `other`; without `other`, `limit` of its unit."""

    what: str
    one: Series
    other: Series | None
    limit: float
    at_least: bool

    @property
    def value(self) -> float:
        """The median of the rounds' own ratios: both sides of one round meet the machine in the same mood."""
        if self.other is None:
            return self.one.median
        pairs = zip(self.one.values, self.other.values, strict=True)
        return statistics.median(one / other for one, other in pairs)

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(slots=True)
class Run:
    """One run of one benchmark, and what it found."""

    size: Size
    folder: Path
    tell: Callable[[str], None] = print
    series: dict[tuple[str, str], Series] = field(default_factory=dict[tuple[str, str], Series])
    goals: list[Goal] = field(default_factory=list[Goal])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])

    def pick(self, *, quick: _T, full: _T) -> _T:
        """A number for the size of the run."""
        return full if self.size == "full" else quick

    def add(self, what: str, side: str, value: float, unit: str, better: Better = "") -> Series:
        """One value more for a side of a question."""
        series = self.series.setdefault((what, side), Series(side, unit, better))
        series.values.append(value)
        return series

    def at_least(self, what: str, one: str, other: str, limit: float) -> None:
        """Judge: this side is to be at least so many times the other. Left out where the other is."""
        self._judge(what, one, other, limit, at_least=True)

    def at_most(self, what: str, one: str, other: str, limit: float) -> None:
        """Judge: this side is to be at most so many times the other. Left out where the other is; `other` "" makes
        the limit one of the side's own unit."""
        self._judge(what, one, other, limit, at_least=False)

    def _judge(self, what: str, one: str, other: str, limit: float, *, at_least: bool) -> None:
        mine, theirs = self.series.get((what, one)), self.series.get((what, other))
        if mine and (theirs or not other):
            self.goals.append(Goal(what, mine, theirs, limit, at_least))

    def note(self, text: str) -> None:
        """Something that a reader of the figures has to know."""
        self.notes.append(text)

    def leave_out(self, side: str, reason: str) -> None:
        """This side cannot run here."""
        self.left_out[side] = reason


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One question."""

    name: str
    asks: str
    run: Callable[[Run], Awaitable[None] | None]
    """Raises `CannotRun` where nothing of it can be measured here."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many percent of them, of at least one, do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
