"""A page over what many sessions share: read from the indexes of all partitions, each up to date, and merged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from eventstore.domain.errors import InternalError, Missing, SessionDeleted, StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.preflight import info
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import split_member
from projections.projector.background import BackgroundProjectors
from projections.queries.index_query import IndexEntry, IndexQuery, PartitionReading, decode_partition_reading
from projections.redis_keys import Layout

DOCUMENTS = scripts.load("projections", "read_documents", writes=False)

SPARE = 4
"""So many entries more than twice its even share is a partition asked for at first: few are then asked again."""
ROUNDS = 20
EXPIRED_AT_ONCE = 64
PAGE_BYTES = 4 * 1024 * 1024
"""A page ends after the document that reaches this, however many were asked for."""


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """Where a document lies: a field of a hash, in a generation."""

    layout: Layout
    key: str
    field: str


@dataclass(frozen=True, slots=True)
class IndexPage:
    """`more` says that the entries go on, `total` how many there are in all."""

    entries: list[IndexEntry]
    more: bool
    total: int

    def cut(self, count: int) -> IndexPage:
        """The page if it ended after so many."""
        return self if count >= len(self.entries) else IndexPage(self.entries[:count], True, self.total)


class IndexPages:
    """Reads pages. Every partition is up to date with what was acknowledged, and due, before the question."""

    def __init__(self, client: RedisClient, store: EventStore, upkeep: BackgroundProjectors) -> None:
        self._client: RedisClient = client
        self._store: EventStore = store
        self._upkeep: BackgroundProjectors = upkeep
        self._one_node: bool | None = None

    async def read(self, query: IndexQuery) -> IndexPage:
        """Each partition is asked for its likely share first; for a whole page only where that turns out too little,
        as it does where a session has many entries that lie together."""
        wanted = query.limit + 1
        share = min(wanted, 2 * wanted // self._store.keys.partitions + SPARE)
        readings = await self._readings(query, share, range(self._store.keys.partitions))
        entries = query.merged(readings.values())
        whole = set[int]() if share < wanted else set(readings)
        while short := _cut_short(query, share, readings, entries) - whole:
            whole |= short
            readings |= await self._readings(query, wanted, sorted(short))
            entries = query.merged(readings.values())  # reaches further than before, if entries have gone meanwhile
        total = sum(one.total for one in readings.values())
        return IndexPage(entries[: query.limit], len(entries) > query.limit, total)

    async def _readings(self, query: IndexQuery, share: int, numbers: Sequence[int]) -> dict[int, PartitionReading]:
        """A reading of each of these partitions, those taken again that were not up to date."""
        found, caught_up, tried = dict[int, PartitionReading](), dict[int, str](), set[str]()
        asked = list(numbers)
        for _ in range(ROUNDS):
            found.update(zip(asked, await self._ask(query, share, asked), strict=True))
            due = {number: set(found[number].overdue) - tried for number in asked}
            overdue = set[str]().union(*due.values())
            await self._expire(overdue)
            tried |= overdue
            late = [n for n in asked if due[n] or (found[n].behind and caught_up.get(n) != found[n].generation)]
            caught_up.update(await self._upkeep.catch_up_all(late))
            asked = [number for number in asked if found[number].moved or number in late]
            if not asked:
                return found
        raise StoreUnavailable("too much falls due at once; try again in a moment")

    async def _ask(self, query: IndexQuery, share: int, numbers: Sequence[int]) -> list[PartitionReading]:
        projectors = [self._upkeep.projectors[number] for number in numbers]
        layouts = [projector.layout for projector in projectors]
        calls = [query.script_call(share, group) for group in await self._groups(layouts)]
        replies = [one for reply in await self._client.run_each(calls) for one in reply]
        readings = [decode_partition_reading(layout, reply) for layout, reply in zip(layouts, replies, strict=True)]
        for projector, reading in zip(projectors, readings, strict=True):
            projector.serves(reading.generation)
        return readings

    async def _groups(self, layouts: Sequence[Layout]) -> list[Sequence[Layout]]:
        """Which partitions one script may be asked about: all of them, but on a cluster each by itself."""
        if self._one_node is None:
            self._one_node = await info(self._client, "cluster_enabled") == "0"
        return [layouts] if self._one_node else [[layout] for layout in layouts]

    async def _expire(self, members: Iterable[str]) -> None:
        slots = asyncio.Semaphore(EXPIRED_AT_ONCE)

        async def expire(member: str) -> None:
            # A session that is broken by itself must not hide all the others.
            async with slots:
                with contextlib.suppress(Missing, SessionDeleted, StoreUnavailable, InternalError):
                    await self._store.expire(*split_member(member))

        await asyncio.gather(*map(expire, members))

    async def documents(self, places: Sequence[DocumentRef]) -> list[bytes | None]:
        """What lies there; of the places that come last none, where those before fill a page."""
        by_layout = dict[Layout, list[int]]()
        for n, place in enumerate(places):
            by_layout.setdefault(place.layout, []).append(n)
        groups = [[n for layout in group for n in by_layout[layout]] for group in await self._groups(list(by_layout))]
        groups = [sorted(group) for group in groups if group]
        room = PAGE_BYTES // max(1, len(groups))
        calls = [
            ScriptCall(DOCUMENTS, [places[n].key for n in group], [*(places[n].field for n in group), room])
            for group in groups
        ]
        by_number = dict[int, bytes]()
        for group, reply in zip(groups, await self._client.run_each(calls), strict=True):
            by_number.update(zip(group, reply.split(b"\n"), strict=False))
        return list(_page_full(by_number))


def _page_full(by_number: Mapping[int, bytes]) -> Iterator[bytes | None]:
    """Documents from the first on, without a gap, until they fill a page."""
    room, number = PAGE_BYTES, 0
    while room > 0 and number in by_number:
        yield by_number[number] or None
        room -= len(by_number[number])
        number += 1


def _cut_short(
    query: IndexQuery, share: int, readings: Mapping[int, PartitionReading], merged: Sequence[IndexEntry]
) -> set[int]:
    """The partitions of which more may belong into the page than was read."""
    end = merged[-1].rank if len(merged) > query.limit else None
    return {
        number
        for number, reading in readings.items()
        for index in reading.indexes
        if len(index) >= share and (end is None or not query.precedes(end, index.last))
    }
