"""A page over all partitions is whole, whatever changes between one reading and the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventstore.redis_keys import Keys
from projections.queries.index_pages import IndexPages
from projections.queries.index_query import IndexQuery, IndexSlice, PartitionReading
from projections.redis_keys import Layout

pytestmark = pytest.mark.anyio
KEYS = Keys(64)
Entries = dict[int, list[tuple[int, str]]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Told(IndexPages):
    """Pages over entries that stand in a dictionary, by partition; `between` is done after each asking."""

    def __init__(self, entries: Entries, between: Callable[[Entries], object]) -> None:
        store, upkeep = SimpleNamespace(keys=KEYS), SimpleNamespace(catch_up_all=self._nothing)
        super().__init__(cast("Any", None), cast("Any", store), cast("Any", upkeep))
        self._entries = entries
        self._between = between
        self.asked = list[list[int]]()

    async def _nothing(self, _: object) -> dict[int, str]:
        return {}

    async def _ask(self, query: IndexQuery, share: int, numbers: Sequence[int]) -> list[PartitionReading]:
        self.asked.append(list(numbers))
        readings = [self._reading(query, share, number) for number in numbers]
        self._between(self._entries)
        return readings

    def _reading(self, query: IndexQuery, share: int, number: int) -> PartitionReading:
        there = sorted(self._entries.get(number, []), reverse=query.order == "desc")
        parts = [part for score, name in there[:share] for part in (name.encode(), b"%d" % score)]
        layout = Layout(KEYS.partition(number), "0")
        return PartitionReading("0", moved=False, total=len(there), indexes=[IndexSlice(layout, parts)])


def entries(score: int, name: str, count: int) -> list[tuple[int, str]]:
    return [(score, f"{name}{n:02}") for n in range(count)]


def query(limit: int, order: str = "asc") -> IndexQuery:
    return IndexQuery(lambda _: [], cast("Any", order), limit)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_only_partitions_that_hold_more_than_their_share_are_asked_again(order: str):
    held: Entries = {5: entries(100, "a", 30), 9: entries(100, "b", 2), 11: entries(100, "c", 3)}
    pages = Told(held, lambda _: None)
    page = await pages.read(query(20, order))
    everything = sorted((entry for some in held.values() for entry in some), reverse=order == "desc")
    assert [(entry.score, entry.member) for entry in page.entries] == everything[:20]
    assert (page.more, page.total) == (True, 35)
    assert pages.asked == [list(range(64)), [5]]


async def test_a_page_from_which_entries_go_while_it_is_read_takes_those_that_follow():
    held: Entries = {
        5: entries(100, "a", 8), 6: entries(100, "b", 8), 7: entries(200, "c", 3), 8: entries(300, "d", 8)
    }  # fmt: skip
    pages = Told(held, lambda entries: [entries.pop(5, None), entries.pop(6, None)])
    page = await pages.read(query(10))
    assert [entry.member for entry in page.entries] == [name for _, name in [*held[7], *held[8]]][:10]
    assert page.more
    assert pages.asked == [list(range(64)), [5, 6], [8]]
