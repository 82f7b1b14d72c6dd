"""Deadlines and leases take effect once, at their time, whoever notices first."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.commit.deadline_sweeper import AT_ONCE, SLICE, DeadlineSweeper
from eventstore.domain.errors import CallAlreadyDecided, CallExpired, InvalidSnapshot, OutcomeUnknown, StoreUnavailable
from eventstore.domain.values import timestamps
from eventstore.event_store import EventStore
from eventstore.redis_client.clock import Clocks
from eventstore.support.tasks import end
from tests.integration.conftest import OpenStore
from tests.integration.stores import (
    TENANT,
    client_of,
    count,
    create,
    note,
    passed,
    send,
    stand_in,
    stored,
    types,
    until,
)
from tests.unit.domain.given import ANNA, approve, ask, claim, event, reject

pytestmark = pytest.mark.anyio


@pytest.fixture
async def passive(opened: OpenStore) -> EventStore:
    """A store that neither listens nor sweeps."""
    return await opened(start=False)


async def overdue(store: EventStore, *interrupt_ids: str, in_ms: int = 60) -> None:
    """A session whose calls have just fallen due."""
    await create(store)
    names = interrupt_ids or ("c1",)
    await send(store, *(ask(name, expires_in_ms=in_ms) for name in names))
    asked = [event["data"] for event in await stored(store) if event["type"] == "input.requested"]
    await passed(store, max(timestamps.parse(data["expires_at"]) for data in asked))


async def expired_at(store: EventStore, interrupt_id: str = "c1") -> int:
    """How long after its deadline the expiry was recorded, ms."""
    (found,) = [
        event
        for event in await stored(store)
        if event["type"] == "input.expired" and event["data"]["interrupt_id"] == interrupt_id
    ]
    return timestamps.parse(found["time"]) - timestamps.parse(found["data"]["expires_at"])


# Each road alone


async def test_a_read_of_the_log_lets_an_overdue_call_expire_first(passive: EventStore) -> None:
    await overdue(passive)
    page = await passive.page(TENANT, "s1", -2, 10)
    assert [b'"input.expired"' in line for line in page.lines] == [True, False]


async def test_a_read_of_the_call_lets_it_expire_first(passive: EventStore) -> None:
    await overdue(passive)
    assert (await passive.call(TENANT, "s1", "c1")).status == "EXPIRED"
    assert await count(passive, "input.expired") == 1


async def test_a_read_of_the_head_lets_an_overdue_call_expire_first(passive: EventStore) -> None:
    await overdue(passive)
    assert (await passive.head(TENANT, "s1")).session.waiting == {}


async def test_a_tail_that_begins_lets_an_overdue_call_expire_first(passive: EventStore) -> None:
    await overdue(passive)
    chunk = await anext(passive.follow(TENANT, "s1", -2))
    assert b'"input.expired"' in chunk.lines[0]


async def test_an_append_lets_an_overdue_call_expire_first(passive: EventStore) -> None:
    await overdue(passive)
    await send(passive, note())
    assert (await types(passive))[-3:] == ["input.expired", "session.waiting", "note.taken"]


async def test_a_late_decision_lets_its_call_expire_and_leaves_its_trace(passive: EventStore) -> None:
    await overdue(passive)
    for _ in range(2):
        with pytest.raises(CallExpired):
            await send(passive, approve("c1"), by=ANNA)
    assert (await types(passive))[-4:] == ["input.expired", "session.waiting", "input.refused", "input.refused"]


async def test_the_sweeper_expires_what_nobody_looks_at(store: EventStore) -> None:
    await overdue(store)
    await until(lambda: count(store, "input.expired"))
    assert await expired_at(store) < 1000


async def test_the_sweeper_needs_no_notification_of_markers(store: EventStore, redis: Redis) -> None:
    await redis.config_set("notify-keyspace-events", "")
    try:
        await overdue(store)
        await until(lambda: count(store, "input.expired"))
        assert await expired_at(store) < 1000
    finally:
        await redis.config_set("notify-keyspace-events", "Ex")


async def test_the_sweeper_hears_of_deadlines_that_another_process_set(store: EventStore, passive: EventStore) -> None:
    await until(lambda: store.clock.known)
    await overdue(passive)
    await until(lambda: count(passive, "input.expired"))
    assert await expired_at(passive) < 1000


async def test_a_marker_that_goes_wakes_a_sweeper_that_knows_nothing(
    opened: OpenStore, passive: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_due = DeadlineSweeper.deadline_changed

    def only_markers(self: DeadlineSweeper, member: str, due: int | None) -> None:
        if due == 0:
            note_due(self, member, due)

    monkeypatch.setattr(DeadlineSweeper, "deadline_changed", only_markers)
    await opened()
    await overdue(passive, in_ms=300)
    await until(lambda: count(passive, "input.expired"))


async def test_the_index_tells_a_sweeper_that_has_heard_nothing(
    opened: OpenStore, passive: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.SCAN_EVERY_S", 0.05)
    await redis.config_set("notify-keyspace-events", "")
    try:
        deaf = await opened()
        deaf.stop_listening(deaf._sweeper)
        await overdue(passive)
        await until(lambda: count(passive, "input.expired"))
    finally:
        await redis.config_set("notify-keyspace-events", "Ex")


async def test_what_fell_due_while_everything_was_down_expires_at_the_start(
    opened: OpenStore, passive: EventStore
) -> None:
    await overdue(passive)
    began = time.monotonic()
    await opened()
    await until(lambda: count(passive, "input.expired"))
    assert time.monotonic() - began < 2


# Exactly once, at the right time


async def test_decisions_and_expiries_that_race_leave_one_outcome_a_call(store: EventStore, other: EventStore) -> None:
    await create(store)
    names = [f"c{n}" for n in range(40)]
    await send(store, *(ask(name, expires_in_ms=150) for name in names))
    heard = Counter[str]()

    async def decide(n: int, chosen: EventStore) -> None:
        await asyncio.sleep(0.1 + n % 20 * 0.005)
        try:
            await send(chosen, (approve, reject)[n % 2](names[n % 40]), by=ANNA)
            heard["decided"] += 1
        except CallExpired:
            heard["expired"] += 1
        except CallAlreadyDecided:
            heard["second"] += 1

    await asyncio.gather(*(decide(n, (store, other)[n % 2]) for n in range(80)))
    await until(lambda: outcomes(store, 40))
    events = await stored(store)
    decided = [e for e in events if e["type"] == "input.completed"]
    expired = [e for e in events if e["type"] == "input.expired"]
    assert sorted(e["data"]["interrupt_id"] for e in decided + expired) == sorted(names)
    assert heard["decided"] >= len(decided)
    deadlines = {e["data"]["interrupt_id"]: e["data"]["expires_at"] for e in events if e["type"] == "input.requested"}
    assert all(e["time"] < deadlines[e["data"]["interrupt_id"]] for e in decided)
    assert all(e["time"] >= deadlines[e["data"]["interrupt_id"]] for e in expired)


async def outcomes(store: EventStore, expected: int) -> bool:
    found = await types(store)
    return found.count("input.completed") + found.count("input.expired") == expected


async def test_many_sweepers_and_readers_expire_a_call_once(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(3)]
    await overdue(stores[0], "c1", "c2")
    await asyncio.gather(*(chosen.page(TENANT, "s1", 1, 100) for chosen in stores * 5))
    assert await count(stores[0], "input.expired") == 2


async def test_a_call_never_expires_early(store: EventStore) -> None:
    """This process takes the engine's clock to be ahead of what it is."""
    await until(lambda: store.clock.known)
    await create(store)
    await send(store, ask("c1", expires_in_ms=400))
    store.clock.observe(store.clock.now() + 10_000)
    await until(lambda: count(store, "input.expired"))
    assert 0 <= await expired_at(store) < 1000


async def test_a_sweep_that_comes_too_early_does_not_forget_the_deadline(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.SCAN_EVERY_S", 60.0)
    await create(store)
    await send(store, ask("c1", expires_in_ms=300))
    await until(lambda: store._sweeper._due)
    (member,) = store._sweeper._due
    store.stop_listening(store._sweeper)
    store._sweeper.deadline_changed(member, None)  # as if its time had come
    await store._sweeper._expire(member)
    await until(lambda: count(store, "input.expired"))


async def test_two_hundred_and_fifty_calls_due_at_once_all_expire(store: EventStore) -> None:
    await create(store)
    names = [f"c{n}" for n in range(250)]
    await send(store, *(ask(name, expires_in_ms=800) for name in names))
    await until(lambda: outcomes(store, 250))
    found = await types(store)
    assert found.count("input.expired") == 250
    assert found[-1] == "session.waiting"
    assert (await store.head(TENANT, "s1")).session.status == "waiting"


async def test_the_last_of_many_overdue_calls_cannot_be_decided_any_more(passive: EventStore) -> None:
    await overdue(passive, *(f"c{n}" for n in range(250)), in_ms=400)
    for name in ("c249", "c0"):
        with pytest.raises(CallExpired):
            await send(passive, approve(name), by=ANNA)
    assert await count(passive, "input.expired") == 250


async def test_distant_deadlines_take_no_memory(store: EventStore) -> None:
    await until(lambda: store.clock.known)
    await create(store)
    for n in range(50):
        await send(store, ask(f"c{n}", expires_in_ms=3_600_000 + n))
    await send(store, ask("near", expires_in_ms=30_000))
    await until(lambda: store._sweeper._due)
    assert len(store._sweeper._heap) == 1


async def test_a_commit_that_is_told_of_late_does_not_hide_a_newer_deadline(passive: EventStore) -> None:
    """The answer to our own commit can arrive after the announcement of a later one."""
    await create(passive)
    keys, due = passive.session_keys(TENANT, "s1"), passive.clock.now() + 30_000
    head = await passive.head(TENANT, "s1")
    passive._notifier.announced(keys.partition.number, keys.member, 2, due)
    passive._notifier.committed(keys, head, [])
    assert passive._sweeper._due[keys.member][0] == due


# Leases


async def test_a_lease_that_passes_lapses_once(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await send(store, approve("c1"), by=ANNA)
    await send(store, claim("c1", lease_ms=100))
    await until(lambda: count(store, "action.lapsed"))
    with pytest.raises(OutcomeUnknown):
        await send(other, claim("c1", owner="w2"))
    assert await count(store, "action.lapsed") == 1


async def test_a_renewed_lease_lapses_at_its_new_end(store: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await send(store, approve("c1"), by=ANNA)
    answers = [await send(store, claim("c1", lease_ms=300)) for _ in range(3)]
    await until(lambda: count(store, "action.lapsed"))
    (lapsed,) = [event for event in await stored(store) if event["type"] == "action.lapsed"]
    assert 0 <= timestamps.parse(lapsed["time"]) - timestamps.parse(answers[-1].result["lease_until"]) < 1000


async def test_a_lease_lapses_after_the_session_has_ended(store: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await send(store, approve("c1"), by=ANNA)
    await send(store, claim("c1", lease_ms=200))
    await send(store, event("session.completed"))
    await until(lambda: count(store, "action.lapsed"))


# What must not stop it


async def test_a_damaged_call_expires_for_the_session_and_stays_as_it_is(store: EventStore, redis: Redis) -> None:
    await create(store)
    await send(store, ask("c1", expires_in_ms=300), ask("c2", expires_in_ms=300))
    await redis.hset(store.session_keys(TENANT, "s1").calls, "c1", "damaged")
    fresh = store.session_keys(TENANT, "s1")
    store._writer._lanes.clear()
    await until(lambda: outcomes(store, 2))
    assert await redis.hget(fresh.calls, "c1") == b"damaged"
    with pytest.raises(InvalidSnapshot):
        await store.call(TENANT, "s1", "c1")


async def test_a_session_that_cannot_be_swept_does_not_hold_up_the_others(
    store: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = list[Any]()
    scan = store._sweeper._scan

    async def counted() -> None:
        rounds.append(None)
        await scan()

    monkeypatch.setattr(store._sweeper, "_scan", counted)
    for name in ("broken", "sound"):
        await create(store, name)
    await send(store, ask("c1", expires_in_ms=200), session_id="broken")
    await redis.delete(store.session_keys(TENANT, "broken").events)
    await asyncio.sleep(0.4)
    for n in range(3):
        await send(store, ask(f"c{n}", expires_in_ms=100), session_id="sound")
        await until(lambda n=n: is_expired(store, n + 1))
    assert len(rounds) < 3, "the index is read again and again"
    await redis.flushall()


async def is_expired(store: EventStore, number: int) -> bool:
    return await count(store, "input.expired", "sound") == number


async def test_an_error_that_nobody_foresaw_does_not_end_the_sweeper(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.LONGEST_SLEEP_S", 0.05)
    failures = [RuntimeError("never seen before")] * 3
    take_due = store._sweeper._take_due

    def failing() -> list[str]:
        if failures:
            raise failures.pop()
        return take_due()

    monkeypatch.setattr(store._sweeper, "_take_due", failing)
    await overdue(store)
    await until(lambda: count(store, "input.expired"))


# Very many at once


class CountingWriter:
    """Lets a session expire by taking it out of the index, unless it is stuck; counts what is under way."""

    def __init__(self, store: EventStore, *stuck: str) -> None:
        self._store = store
        self._stuck = set(stuck)
        self.swept = Counter[str]()
        self.under_way = self.most = self.tasks = 0

    async def execute(self, tenant: str, session_id: str, *_: Any) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.tasks = max(self.tasks, len(asyncio.all_tasks()))
        self.swept[session_id] += 1
        if session_id not in self._stuck:
            keys = self._store.session_keys(tenant, session_id)
            await client_of(self._store).command("ZREM", keys.partition.deadlines, keys.member)
        self.under_way -= 1
        if session_id in self._stuck:
            raise StoreUnavailable("its log is lost")

    def next_due(self, *_: str) -> int | None:
        return None


async def sweep_index(store: EventStore, names: list[str], *stuck: str) -> tuple[CountingWriter, list[int]]:
    """Let a sweeper of its own sweep these sessions, overdue one after another, without a pause; also how much it
    had in memory after each look into the index."""
    named = [(1_000_000 + n, store.session_keys(TENANT, name)) for n, name in enumerate(names)]
    await client_of(store).commands([("ZADD", keys.partition.deadlines, due, keys.member) for due, keys in named])
    writer, most = CountingWriter(store, *stuck), list[int]()
    sweeper = DeadlineSweeper(
        client_of(store), store.keys, Clocks(store.keys.partitions, shared=True), stand_in(writer)
    )
    scan, sleep, rested = sweeper._scan, sweeper._sleep, list[int]()

    async def measured() -> None:
        await scan()
        most.append(len(sweeper._heap))

    async def resting() -> None:
        rested.append(len(writer.swept))
        await sleep()

    sweeper._scan, sweeper._sleep = measured, resting
    task = asyncio.create_task(sweeper.run())
    try:
        await until(lambda: len(writer.swept) == len(names), 60)
        await asyncio.sleep(0.3)
        assert set(rested) == {len(names)}, "it paused although more was due"
    finally:
        await end(task)
    return writer, most


async def test_thousands_that_are_overdue_take_bounded_memory_and_no_pause(
    passive: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.SCAN_MEMBERS", 500)
    writer, scans = await sweep_index(passive, [f"s{n}" for n in range(5_000)])
    assert set(writer.swept.values()) == {1}
    assert writer.most <= AT_ONCE
    assert writer.tasks < SLICE + 50
    assert max(scans) <= 4 * 500
    assert len(scans) < 8
    assert await redis.keys("*deadlines") == []


async def test_what_cannot_be_swept_does_not_hide_what_comes_behind_it(
    passive: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.SCAN_MEMBERS", 20)
    names = [f"s{n}" for n in range(600)]
    writer, scans = await sweep_index(passive, names, *names[:200])
    assert set(writer.swept.values()) == {1}
    assert len(scans) < 40, "the index is read again and again"
    await redis.flushall()


async def test_more_than_a_scan_reads_that_falls_due_soon_is_read_in_time(
    opened: OpenStore, passive: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.commit.deadline_sweeper.SCAN_MEMBERS", 3)
    names = [f"s{n}" for n in range(40)]
    for name in names:
        await create(passive, name)
        await send(passive, ask("c1", expires_in_ms=1_500), session_id=name)
    await redis.config_set("notify-keyspace-events", "")
    try:
        deaf = await opened()
        deaf.stop_listening(deaf._sweeper)
        for name in names:
            await until(lambda name=name: count(passive, "input.expired", name), 5)
    finally:
        await redis.config_set("notify-keyspace-events", "Ex")
