"""Which entries of the indexes to read, and how the script is asked for them in some partitions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice, repeat
from typing import Literal

from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import ScriptCall
from projections import redis_keys
from projections.queries.page_cursor import PageCursor
from projections.redis_keys import Layout

PAGE = scripts.load("projections", "read_index_page", writes=False)

OVERDUE = 1_000
"""How many overdue sessions of a partition are met at once."""


Rank = tuple[int, bytes]
"""Score and member of an entry: in this order the engine, too, has them."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A member of an index, and the generation that its document lies in."""

    score: int
    member: str
    layout: Layout

    @property
    def rank(self) -> Rank:
        return self.score, self.member.encode()


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """Which entries to read. `indexes` names the same number of indexes in every layout."""

    indexes: Callable[[Layout], Sequence[str]]
    order: Literal["asc", "desc"]
    limit: int
    cursor: PageCursor | None = None

    def precedes(self, one: Rank, other: Rank) -> bool:
        return one < other if self.order == "asc" else one > other

    def merged(self, readings: Iterable[PartitionReading]) -> list[IndexEntry]:
        """One entry more than asked for, if there is one: it tells that others follow."""
        stretches = [stretch for one in readings for stretch in one.indexes]
        numbered = [zip(stretch.ranks(), repeat(number)) for number, stretch in enumerate(stretches)]
        first = islice(merge(*numbered, reverse=self.order == "desc"), self.limit + 1)
        return [IndexEntry(score, member.decode(), stretches[number].layout) for (score, member), number in first]

    def script_call(self, share: int, group: Sequence[Layout]) -> ScriptCall:
        """Asks for the first `share` entries of every index in these partitions."""
        keys, count = list[str](), 0
        for layout in group:
            partition, indexes = layout.partition, self.indexes(layout)
            keys += [redis_keys.current(partition), layout.checkpoint, partition.feed, partition.deadlines, *indexes]
            count = len(indexes)
        score, member = (self.cursor.score, self.cursor.member) if self.cursor else ("", "")
        generations = [layout.generation for layout in group]
        return ScriptCall(PAGE, keys, [count, self.order, score, member, share, OVERDUE, *generations])


@dataclass(frozen=True, slots=True)
class IndexSlice:
    """Entries of one index in their order, as the script tells them: of most that are read no page shows any."""

    layout: Layout
    parts: list[bytes]

    def __len__(self) -> int:
        return len(self.parts) // 2

    @property
    def last(self) -> Rank:
        return int(self.parts[-1]), self.parts[-2]

    def ranks(self) -> Iterator[Rank]:
        return zip(map(int, self.parts[1::2]), self.parts[::2], strict=True)


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """What one partition answered. `generation` is the one that is served; if that is not the one that was asked for
    (`moved`), the rest is empty."""

    generation: str
    moved: bool
    behind: bool = False
    overdue: list[str] = field(default_factory=list[str])
    total: int = 0
    indexes: list[IndexSlice] = field(default_factory=list[IndexSlice])


def decode_partition_reading(layout: Layout, reply: bytes) -> PartitionReading:
    lines = iter(reply.split(b"\n"))
    generation = next(lines).decode()
    if generation != layout.generation:
        return PartitionReading(generation, moved=True)
    behind, total = next(lines) == b"1", int(next(lines))
    overdue = [member.decode() for member in islice(lines, int(next(lines)))]
    indexes = [IndexSlice(layout, list(islice(lines, 2 * int(count)))) for count in lines]
    return PartitionReading(generation, False, behind, overdue, total, indexes)
