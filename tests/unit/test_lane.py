"""What a lane remembers, and whether the store still says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from eventstore.commit.batch import Answer, Pending, Retry
from eventstore.commit.records import Head, Loaded
from eventstore.commit.session_queue import SessionQueue
from eventstore.domain.commands import Publish
from eventstore.domain.errors import IdempotencyKeyReused, Overloaded, RequestInProgress
from eventstore.redis_keys import Keys
from tests.unit.domain.given import AGENT

pytestmark = pytest.mark.anyio


def lane(on_answer: Callable[[], None] = lambda: None) -> SessionQueue:
    return SessionQueue(Keys(4).session("default", "s1"), on_answer)


def loaded(revision: str, **sums: str) -> Loaded:
    return Loaded(0, Head(revision), {}, dict.fromkeys(sums), {name: sum_ for name, sum_ in sums.items() if sum_})


def pending(retry: Retry | None = None) -> Pending:
    return Pending(Publish([]), AGENT, asyncio.get_running_loop().create_future(), retry)


@pytest.mark.parametrize(
    ("read", "same"),
    [
        (loaded("r1"), True),
        (loaded("r1", c1="sum"), True),
        (loaded("r1", none=""), True),
        (loaded("r2", c1="sum"), False),  # somebody else has written
        (loaded("r1", c1="damaged"), False),
        (loaded("r1", c1=""), False),  # the record is gone
        (loaded("r1", c2="sum"), False),  # never heard of
        (loaded(""), False),
    ],
)
def test_what_is_read_is_compared_record_by_record(read: Loaded, same: bool):
    one = lane()
    one.take_head(Head("r1"))
    one.know({"c1": None, "none": None}, {"c1": "sum"})
    assert one.remembers(read) is same


def test_a_lane_that_knows_nothing_remembers_nothing():
    assert not lane().remembers(loaded(""))


async def test_each_command_counts_as_answered_once_and_only_when_it_leaves_the_queue():
    answered = list[str]()
    one, other = lane(lambda: answered.append("one")), lane(lambda: answered.append("other"))
    first, second, third = pending(), pending(), pending()
    one.add(first)
    one.add(second)
    other.add(third)
    one.refuse(first, Overloaded("full"))
    one.refuse(first, Overloaded("full"))  # twice is once
    third.answer.cancel()
    assert answered == ["one"]  # a caller that has gone has left a command behind
    other.refuse(third, Overloaded("full"))
    assert (answered, list(one.queue), list(other.queue)) == (["one", "other"], [second], [])


async def test_a_key_is_under_way_until_its_command_is_answered():
    one, retry = lane(), Retry("field", "print")
    first = pending(retry)
    one.add(first)
    with pytest.raises(RequestInProgress):
        one.add(pending(retry))
    with pytest.raises(IdempotencyKeyReused):
        one.add(pending(Retry("field", "another")))
    one.replay(first, '{"fingerprint":"print","result":{"seq":1}}')
    assert first.answer.result() == Answer({"seq": 1}, replayed=True)
    assert one.under_way(retry) is None
