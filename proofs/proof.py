"""What a proof is, and what it is given to work with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

Size = Literal["quick", "full"]
_T = TypeVar("_T")


class Breach(Exception):
    """A promise was broken. The message says which, and shows the smallest evidence."""


class CannotRun(Exception):
    """This machine lacks what the proof needs. The message says what; the proof counts as not run, never as passed."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to one file of the tree: a text that stands there exactly once, and what stands there instead."""

    path: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Raises `LookupError` where the text is not found exactly once."""
        file = root / self.path
        text = file.read_text()
        if (found := text.count(self.old)) != 1:
            raise LookupError(f"{self.path}: the text to change is found {found} times, not once: {self.old!r}")
        file.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault put into a copy of the tree, which its proof must catch. A proof that catches nothing proves nothing."""

    name: str
    patches: tuple[Patch, ...]
    """More than one where the same check is made in more than one place."""
    options: dict[str, str] = field(default_factory=dict[str, str])
    """What the proof should look at, to find it soon (see `Run.option`). The checks are the same."""


@dataclass(slots=True)
class Run:
    """One run of one proof: its size, a folder that goes with it, and where to tell what was seen."""

    proof: str
    size: Size
    folder: Path
    seed: int
    mutation: Mutation | None = None
    figures: dict[str, str] = field(default_factory=dict[str, str])
    tell: Callable[[str], None] = print
    began: float = field(default_factory=time.monotonic)

    @property
    def root(self) -> Path:
        """The tree that is proved: this checkout, or a copy with a fault in it."""
        return Path(__file__).parents[1]

    def pick(self, *, quick: _T, full: _T, mutated: _T | None = None) -> _T:
        """A number for the size of the run; a run on a broken build is as large as the quick one unless said."""
        if self.mutation and mutated is not None:
            return mutated
        return full if self.size == "full" and not self.mutation else quick

    def option(self, name: str, default: str = "") -> str:
        """What the mutation asks to be looked at; the default in a run on the build as it is."""
        return self.mutation.options.get(name, default) if self.mutation else default

    def parts(self, parts: Mapping[str, _T], option: str = "part") -> Iterator[_T]:
        """Those that the mutation asks for, or all, in order; each is told as it begins."""
        wanted = self.option(option)
        for name, part in parts.items():
            if wanted in ("", name):
                self.progress(name)
                yield part

    def progress(self, text: str) -> None:
        """A line for those who wait; as often as there is something new."""
        self.tell(text)

    def figure(self, name: str, value: object) -> None:
        """One figure for the table: measured in this run, with its unit."""
        self.figures[name] = f"{value:,}" if isinstance(value, int) else str(value)

    def check(self, holds: bool, otherwise: str) -> None:
        """Raises `Breach` unless it holds."""
        if not holds:
            raise Breach(otherwise)


def percentiles(values_ms: Iterable[float]) -> str:
    """p50/p99/max, as a figure."""
    found = sorted(values_ms)
    return f"{found[len(found) // 2]:.1f}/{found[len(found) * 99 // 100]:.1f}/{found[-1]:.1f} ms" if found else "none"


@dataclass(frozen=True, slots=True)
class Proof:
    """A promise, and what shows that it is kept."""

    name: str
    promise: str
    """One sentence, as `docs/guarantees.md` has it."""
    run: Callable[[Run], Awaitable[None] | None]
    """Returns if the promise held. Raises `Breach` if not, `CannotRun` if it could not be tried."""
    mutations: tuple[Mutation, ...] = ()
    alone: bool = False
    """It measures time: nothing else runs beside it."""
    limit_s: dict[Size, float] = field(default_factory=lambda: {"quick": 120.0, "full": 3_600.0})
    """After that it has failed: whatever it waits for does not come."""
