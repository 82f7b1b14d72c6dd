"""The write path on a real engine: order, group commit, stale heads, retries, and limits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.commit import batch
from eventstore.domain.decider import decide
from eventstore.domain.errors import (
    CallAlreadyDecided,
    IllegalTransition,
    InternalError,
    InvalidSnapshot,
    Overloaded,
    SessionDeleted,
    SessionNotFound,
    StoreUnavailable,
)
from eventstore.event_store import EventStore
from proofs.proxy import Proxy
from tests.integration.conftest import OpenStore
from tests.integration.stores import TENANT, count, create, hash_fields, key, note, send, stored, texts, types, until
from tests.unit.domain.given import AGENT, ANNA, approve, ask, event, publish, reject, turn

pytestmark = pytest.mark.anyio


# Order and group commit


async def test_concurrent_commands_leave_in_the_order_in_which_they_came(store: EventStore) -> None:
    await create(store)
    answers = await asyncio.gather(*(send(store, note(n)) for n in range(300)))
    assert [answer.result["first_seq"] for answer in answers] == list(range(2, 302))
    assert await texts(store) == list(range(300))


async def test_concurrent_commands_leave_as_few_commits(store: EventStore, redis: Redis) -> None:
    await create(store)
    await asyncio.gather(*(send(store, note(n)) for n in range(300)))
    assert await redis.xlen(store.session_keys(TENANT, "s1").partition.feed) < 30


async def test_one_refused_command_does_not_hurt_its_batch(store: EventStore) -> None:
    await create(store)
    answers = await asyncio.gather(
        send(store, note("a")), send(store, event("turn.completed")), send(store, note("b")), return_exceptions=True
    )
    assert isinstance(answers[1], IllegalTransition)
    assert await texts(store) == ["a", "b"]


async def test_a_command_sees_what_the_one_before_it_in_the_batch_did(store: EventStore) -> None:
    await create(store)
    await asyncio.gather(
        send(store, turn()),
        send(store, ask("c1")),
        send(store, approve("c1"), by=ANNA),
        send(store, event("turn.completed")),
    )
    assert (await types(store))[-1] == "session.waiting"
    assert (await store.call(TENANT, "s1", "c1")).status == "APPROVED_EXECUTING"


async def test_two_processes_write_one_session_without_gap_or_duplicate(store: EventStore, other: EventStore) -> None:
    await create(store)
    writers = [send(chosen, note((name, n))) for n in range(150) for name, chosen in (("a", store), ("b", other))]
    answers = await asyncio.gather(*writers)
    found = await texts(store)
    assert sorted(found) == sorted([name, n] for n in range(150) for name in "ab")
    by_seq = {event["seq"]: event["data"].get("text") for event in await stored(store)}
    for n, answer in enumerate(answers):
        assert by_seq[answer.result["first_seq"]] == ["ab"[n % 2], n // 2]


async def test_many_sessions_at_once_keep_each_its_own_order(store: EventStore) -> None:
    names = [f"s{n}" for n in range(20)]
    await asyncio.gather(*(create(store, name) for name in names))
    await asyncio.gather(*(send(store, note(n), session_id=name) for n in range(30) for name in names))
    for name in names:
        assert await texts(store, name) == list(range(30))


async def test_two_who_create_the_same_session_find_one_winner(store: EventStore, other: EventStore) -> None:
    answers = await asyncio.gather(create(store), create(other), create(store), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Answer", "SessionExists", "SessionExists"]
    assert await types(store) == ["session.started"]


async def test_two_who_decide_the_same_call_find_one_winner(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await other.call(TENANT, "s1", "c1")
    answers = await asyncio.gather(
        send(store, approve("c1"), by=ANNA), send(other, reject("c1"), by=AGENT), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Answer", "CallAlreadyDecided"]
    assert await count(store, "input.completed") == 1


async def test_batches_that_name_many_calls_each_do_not_stand_in_each_others_way(store: EventStore) -> None:
    await create(store)
    batches = [[ask(f"c{b}.{n}") for n in range(50)] for b in range(4)]
    await asyncio.gather(*(send(store, *batch) for batch in batches))
    assert await count(store, "input.requested") == 200


async def test_many_decided_calls_can_be_asked_about_at_once(store: EventStore) -> None:
    await create(store)
    await send(store, *(ask(f"c{n}") for n in range(120)))
    await asyncio.gather(*(send(store, approve(f"c{n}"), by=ANNA) for n in range(120)))
    await asyncio.gather(*(send(store, approve(f"c{n}"), by=ANNA) for n in range(40)))
    again = await asyncio.gather(*(send(store, approve(f"c{n}"), by=ANNA) for n in range(120)))
    assert {answer.result["outcome"] for answer in again} == {"duplicate"}


async def test_a_caller_that_goes_away_leaves_its_command_and_the_others_alone(store: EventStore) -> None:
    await create(store)
    tasks = [asyncio.create_task(send(store, note(n))) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store._writer.idle()
    assert await texts(store) == list(range(20))


async def test_a_caller_that_goes_away_changes_no_order_where_its_batch_is_decided_again(
    store: EventStore, other: EventStore
) -> None:
    await create(store)
    await send(other, note("theirs"))  # which `store` has not heard of: its next batch is refused once
    answers = [store.submit(TENANT, "s1", publish(note(text)), AGENT) for text in ("a", "b")]
    answers[0].cancel()
    await answers[1]
    assert await texts(store) == ["theirs", "a", "b"]


async def test_a_command_that_nobody_waits_for_is_carried_out_though_it_needs_more_than_is_remembered(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.session_queue.CACHED_CHARACTERS", 0)
    await create(store)
    await send(store, ask("c1"))
    await until(lambda: not store._writer._tasks)
    answer = store.submit(TENANT, "s1", publish(ask("c1")), AGENT)  # which needs the record of the call
    answer.cancel()
    async with asyncio.timeout(5):
        await store._writer.idle()
    assert store.commands_waiting == 0


async def test_closing_finishes_what_was_accepted(opened: OpenStore, store: EventStore) -> None:
    closing = await opened()
    await create(closing)
    tasks = [asyncio.create_task(send(closing, note(n))) for n in range(50)]
    await asyncio.sleep(0)
    await closing.close()
    assert all(task.done() and not task.exception() for task in tasks)
    assert await texts(store) == list(range(50))


# The head cache


async def test_a_cold_process_finds_the_session_as_it_is(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, turn())
    with pytest.raises(IllegalTransition):
        await send(other, turn("t2"))
    assert (await send(other, event("turn.completed"))).result["first_seq"] == 4


async def test_a_refusal_from_a_stale_head_is_confirmed_first(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, turn())
    await send(other, event("turn.completed"))
    await send(store, turn("t2"))  # as this process remembers it, t1 is still open
    assert (await types(store)).count("turn.started") == 2


async def test_a_version_that_another_process_reached_is_known(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(other, note("b"))
    assert (await store.execute(TENANT, "s1", publish(note("a"), expected=2), AGENT)).result["first_seq"] == 3


async def test_a_call_that_another_process_decided_is_known(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await send(other, reject("c1"), by=AGENT)
    with pytest.raises(CallAlreadyDecided):
        await send(store, approve("c1"), by=ANNA)


async def test_a_session_deleted_elsewhere_is_gone_here(store: EventStore, other: EventStore) -> None:
    await create(store)
    await other.delete(TENANT, "s1")
    for attempt in (send(store, note()), create(store), store.page(TENANT, "s1", 1, 10), store.delete(TENANT, "s1")):
        with pytest.raises(SessionDeleted):
            await attempt


async def test_a_session_that_never_was_is_not_found(store: EventStore) -> None:
    for attempt in (send(store, note()), store.head(TENANT, "s1"), store.delete(TENANT, "s1")):
        with pytest.raises(SessionNotFound):
            await attempt


async def test_deleting_under_load_ends_in_one_word_for_everyone(store: EventStore, other: EventStore) -> None:
    await create(store)
    writers = [asyncio.create_task(send(chosen, note(n))) for n in range(100) for chosen in (store, other)]
    await asyncio.sleep(0)
    await other.delete(TENANT, "s1")
    answers = await asyncio.gather(*writers, return_exceptions=True)
    assert {type(answer).__name__ for answer in answers} <= {"Answer", "SessionDeleted"}
    with pytest.raises(SessionDeleted):
        await send(store, note())


# Slow deciding


async def test_what_takes_longer_to_decide_than_a_commit_may_is_still_committed(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*given: Any) -> Any:
        time.sleep(0.06)  # as a rule that blocks the loop would
        return decide(*given)

    await create(store)
    monkeypatch.setattr(batch, "MAX_LAG_MS", 40)
    monkeypatch.setattr(batch, "decide", slowly)
    await send(store, note("a"))
    assert await texts(store) == ["a"]


async def test_what_always_comes_too_late_is_given_up_soon(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = list[object]()

    def counted(*given: Any) -> Any:
        attempts.append(given)
        return decide(*given)

    await create(store)
    monkeypatch.setattr("eventstore.commit.writer.PATIENCE_MS", 0)
    monkeypatch.setattr(batch, "MAX_LAG_MS", -1_000_000)
    monkeypatch.setattr(batch, "decide", counted)
    with pytest.raises(Overloaded):
        await send(store, note())
    assert len(attempts) == 3
    monkeypatch.undo()
    await send(store, note("later"))
    assert await texts(store) == ["later"]


async def test_a_batch_is_not_decided_for_long_at_a_time(
    store: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_DECIDING_MS", 0)
    await create(store)
    await asyncio.gather(*(send(store, note(n)) for n in range(5)))
    assert await texts(store) == list(range(5))
    assert await redis.xlen(store.session_keys(TENANT, "s1").partition.feed) == 6


# Limits, and what is damaged


async def test_too_many_waiting_commands_are_overload(proxy: Proxy, opened: OpenStore, store: EventStore) -> None:
    small = await opened(proxy.url, max_pending=3)
    await create(small)
    proxy.hold()
    waiting = [asyncio.create_task(send(small, note(n))) for n in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await send(small, note("too much"))
    proxy.flow()
    await asyncio.gather(*waiting)
    await send(small, note(3))
    assert await texts(store) == [0, 1, 2, 3]


async def broken_call(store: EventStore, redis: Redis, interrupt_id: str = "c1") -> None:
    """Somebody has damaged the stored document of a call."""
    calls = store.session_keys(TENANT, "s1").calls
    record = (await hash_fields(redis, calls))[interrupt_id.encode()]
    await redis.hset(calls, interrupt_id, record.replace(b'"version":2', b'"version":1'))


@pytest.mark.parametrize("record", [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b"{}", b"[" * 100_000])
async def test_a_damaged_call_is_an_invalid_snapshot_for_whoever_reads_it(
    store: EventStore, redis: Redis, record: bytes
) -> None:
    await create(store)
    await send(store, ask("c1"))
    await redis.hset(store.session_keys(TENANT, "s1").calls, "c1", record)
    with pytest.raises(InvalidSnapshot):
        await store.call(TENANT, "s1", "c1")


async def test_a_damaged_call_cannot_be_decided_and_is_left_as_it_is(
    store: EventStore, other: EventStore, redis: Redis
) -> None:
    await create(store)
    await send(store, ask("c1"))
    await broken_call(store, redis)
    before = await redis.hgetall(store.session_keys(TENANT, "s1").calls)
    with pytest.raises(InvalidSnapshot):
        await send(other, approve("c1"), by=ANNA)
    assert await redis.hgetall(store.session_keys(TENANT, "s1").calls) == before
    assert await count(store, "input.completed") == 0


@pytest.mark.parametrize("again", [False, True])
async def test_a_process_that_remembers_a_call_does_not_decide_it_over_a_damaged_record(
    store: EventStore, redis: Redis, again: bool
) -> None:
    """Nothing is repaired in silence: neither by a decision, nor by the same decision once more."""
    await create(store)
    await send(store, ask("c1"))
    if again:
        await send(store, approve("c1"), by=ANNA)
    await broken_call(store, redis)
    before = await redis.hgetall(store.session_keys(TENANT, "s1").calls)
    with pytest.raises(InvalidSnapshot):
        await send(store, approve("c1"), by=ANNA)
    assert await redis.hgetall(store.session_keys(TENANT, "s1").calls) == before
    assert await count(store, "input.completed") == again


async def test_a_damaged_call_keeps_no_session_from_going_on_and_ending(
    store: EventStore, other: EventStore, redis: Redis
) -> None:
    await create(store)
    await send(store, ask("c1"), ask("c2"))
    await broken_call(store, redis)
    await send(other, note("goes on"))
    await send(other, approve("c2"), by=ANNA)
    await send(other, event("session.completed"))
    assert (await types(store))[-2:] == ["input.completed", "session.completed"]


async def test_a_lost_log_is_told_to_writers_and_readers(store: EventStore, redis: Redis) -> None:
    await create(store)
    await redis.delete(store.session_keys(TENANT, "s1").events)
    with pytest.raises(StoreUnavailable, match="lost"):
        await send(store, note())
    with pytest.raises(StoreUnavailable, match="lost"):
        await store.page(TENANT, "s1", 1, 10)
    await redis.flushall()


async def test_the_lanes_of_quiet_sessions_are_forgotten(opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.commit.writer.CACHED_HEADS", 10)
    store = await opened()
    for n in range(30):
        await create(store, f"s{n}")
    assert len(store._writer._lanes) <= 10
    await until(lambda: len(store._writer._tasks) == 0)
    await send(store, note(), session_id="s0")


async def test_what_is_remembered_of_calls_is_bounded_over_all_sessions(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.writer.CACHED_CHARACTERS", 10_000)
    store = await opened()
    for n in range(20):
        await create(store, f"s{n}")
        await send(store, ask(tool_args={"text": "x" * 2_000}), session_id=f"s{n}")
    await until(lambda: not store._writer._tasks)
    assert sum(lane.weight for lane in store._writer._lanes.values()) <= 10_000
    assert (await send(store, approve(), session_id="s0", by=ANNA)).result["outcome"] == "applied"


async def test_a_session_remembers_little_of_large_calls(opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.commit.session_queue.CACHED_CHARACTERS", 10_000)
    store = await opened()
    await create(store)
    await send(store, *(ask(f"c{n}", tool_args={"text": "x" * 2_000}) for n in range(20)))
    await until(lambda: not store._writer._tasks)
    assert [lane.weight for lane in store._writer._lanes.values()] == [0]
    answers = [await send(store, approve(f"c{n}"), by=ANNA) for n in range(20)]
    assert [answer.result["outcome"] for answer in answers] == ["applied"] * 20


async def test_a_fault_of_ours_in_one_command_spares_those_that_share_its_batch(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)

    def faulty(session: Any, calls: Any, command: Any, by: Any, context: Any) -> object:
        if getattr(command, "events", None) and command.events[0].data["text"] == "poison":
            raise RuntimeError("a fault of ours")
        return decide(session, calls, command, by, context)

    monkeypatch.setattr(batch, "decide", faulty)
    sent = (send(store, note(text)) for text in ("a", "poison", "b"))
    heard = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(heard[1], InternalError)
    assert await texts(store) == ["a", "b"]


async def test_who_asks_for_the_answer_of_a_command_whose_caller_has_gone_gets_it(store: EventStore) -> None:
    await create(store)
    first = store.submit(TENANT, "s1", publish(note()), AGENT, key("k"))
    first.cancel()
    answer = store.under_way(TENANT, "s1", key("k"))
    assert answer is not None
    assert (await asyncio.wait_for(answer, 10)).result["first_seq"] == 2
    assert store.under_way(TENANT, "s1", key("k")) is None
