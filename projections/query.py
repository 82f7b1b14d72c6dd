"""Which entries of the indexes to read, and how the script is asked for them in some partitions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from eventstore import scripts
from eventstore.scripts import ScriptCall
from projections import layout as layouts
from projections.cursor import Cursor
from projections.layout import Layout

PAGE = scripts.load("projections", "page", writes=False)

OVERDUE = 1_000
"""How many overdue sessions of a partition are met at once."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A member of an index, and the generation that its document lies in."""

    score: int
    member: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Query:
    """Which entries to read. `indexes` names the same number of indexes in every layout."""

    indexes: Callable[[Layout], Sequence[str]]
    order: Literal["asc", "desc"]
    limit: int
    cursor: Cursor | None = None

    def sorted(self, entries: Iterable[Entry]) -> list[Entry]:
        return sorted(entries, key=_place, reverse=self.order == "desc")

    def merged(self, readings: Iterable[Reading]) -> list[Entry]:
        """One entry more than asked for, if there is one: it tells that others follow."""
        return self.sorted(entry for one in readings for index in one.indexes for entry in index)[: self.limit + 1]

    def script_call(self, share: int, group: Sequence[Layout]) -> ScriptCall:
        """Asks for the first `share` entries of every index in these partitions."""
        keys, count = list[str](), 0
        for layout in group:
            partition, indexes = layout.partition, self.indexes(layout)
            keys += [layouts.current(partition), layout.checkpoint, partition.feed, partition.deadlines, *indexes]
            count = len(indexes)
        score, member = (self.cursor.score, self.cursor.member) if self.cursor else ("", "")
        generations = [layout.generation for layout in group]
        return ScriptCall(PAGE, keys, [count, self.order, score, member, share, OVERDUE, *generations])


def _place(entry: Entry) -> tuple[int, bytes]:
    return entry.score, entry.member.encode()


@dataclass(frozen=True, slots=True)
class Reading:
    """What one partition answered. `generation` is the one that is served; if that is not the one that was asked for
    (`moved`), the rest is empty."""

    generation: str
    moved: bool
    behind: bool = False
    overdue: list[str] = field(default_factory=list[str])
    total: int = 0
    indexes: list[list[Entry]] = field(default_factory=list[list[Entry]])


def decode_reading(layout: Layout, reply: bytes) -> Reading:
    lines = iter(reply.split(b"\n"))
    generation = next(lines).decode()
    if generation != layout.generation:
        return Reading(generation, moved=True)
    behind, total = next(lines) == b"1", int(next(lines))
    overdue = [member.decode() for member in islice(lines, int(next(lines)))]
    indexes = [_decode_index(layout, int(count), lines) for count in lines]
    return Reading(generation, False, behind, overdue, total, indexes)


def _decode_index(layout: Layout, count: int, lines: Iterator[bytes]) -> list[Entry]:
    parts = list(islice(lines, 2 * count))
    return [Entry(int(s), m.decode(), layout) for m, s in zip(parts[::2], parts[1::2], strict=True)]
