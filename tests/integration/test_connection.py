"""What the engine and the network can do to us: every trouble has its word, and all work again afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from eventstore.commit.records import load_call
from eventstore.domain.errors import LaybyError, Overloaded, StoreFull, StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.log.notifications import CommitNotifier
from eventstore.log.subscriber import Subscriber
from eventstore.redis_client import node
from eventstore.redis_client.client import MAX_CONNECTIONS, RedisClient
from eventstore.redis_keys import Keys
from eventstore.support.tasks import end
from eventstore.support.timing import Timing
from proofs.proxy import Proxy
from tests.integration.conftest import OpenStore
from tests.integration.stores import QUICK, TENANT, count, create, generator, key, note, send, texts, until
from tests.scripts.engines import HeldEngine
from tests.unit.domain.given import ask

pytestmark = pytest.mark.anyio
S1 = Keys(4).session(TENANT, "s1")


@pytest.fixture
async def connection(proxy: Proxy, redis: Redis) -> AsyncGenerator[RedisClient]:
    line = RedisClient(proxy.url)
    await line.command("PING")
    yield line
    await line.close()


@pytest.fixture
async def quick(proxy: Proxy, redis: Redis) -> AsyncGenerator[RedisClient]:
    """One that gives up soon."""
    line = RedisClient(proxy.url, timing=QUICK)
    await line.command("PING")
    yield line
    await line.close()


@pytest.mark.parametrize(
    "error",
    [
        "LOADING Valkey is loading the dataset in memory",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "READONLY You can't write against a read only replica.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ],
)
async def test_passing_trouble_is_tried_again(connection: RedisClient, proxy: Proxy, error: str) -> None:
    await connection.run(load_call(S1))
    for attempt in (lambda: connection.command("GET", "x"), lambda: connection.run(load_call(S1))):
        proxy.answers = [f"-{error}\r\n".encode()] * 3
        await attempt()
        assert proxy.answers == []


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreFull),
        ("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'", StoreFull),
        ("MISCONF Errors writing to the AOF file: No space left on device", StoreUnavailable),
        ("NOREPLICAS Not enough good replicas to write.", StoreUnavailable),
        ("BUSY Valkey is busy running a script.", StoreUnavailable),
    ],
)
async def test_a_refusal_to_write_has_its_word(
    connection: RedisClient, proxy: Proxy, error: str, problem: type[LaybyError]
) -> None:
    for attempt in (lambda: connection.command("SET", "x", 1), lambda: connection.run(load_call(S1))):
        proxy.answers = [f"-{error}\r\n".encode()]
        with pytest.raises(problem):
            await attempt()


async def test_an_engine_that_is_gone_is_told_within_the_budget_and_then_at_once(
    quick: RedisClient, proxy: Proxy
) -> None:
    await proxy.down()
    for patience in (QUICK.retry_s + 1, 0.5):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await quick.command("PING")
        assert time.monotonic() - began < patience
    await proxy.up()
    assert await quick.command("PING")


async def test_a_moment_without_the_engine_is_not_noticed(connection: RedisClient, proxy: Proxy) -> None:
    await proxy.down()
    waiting = asyncio.create_task(connection.command("PING"))
    await asyncio.sleep(0.3)
    await proxy.up()
    assert await waiting


async def test_callers_that_go_away_leave_no_connection_behind(
    connection: RedisClient, proxy: Proxy, redis: Redis
) -> None:
    for _ in range(20):
        proxy.hold()
        tasks = [asyncio.create_task(connection.run(load_call(S1))) for _ in range(20)]
        await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        proxy.flow()
        await asyncio.gather(*tasks, return_exceptions=True)
    replies = await asyncio.gather(*(connection.run(load_call(S1)) for _ in range(50)))
    assert {reply[1][0] for reply in replies} == {None}
    assert len(await redis.client_list()) <= MAX_CONNECTIONS + 1


async def test_a_flush_of_scripts_in_the_middle_of_traffic_goes_unnoticed(store: EventStore, redis: Redis) -> None:
    await create(store)
    over = asyncio.Event()

    async def flushing() -> None:
        while not over.is_set():
            await redis.script_flush()
            await asyncio.sleep(0.001)

    flusher = asyncio.create_task(flushing())
    try:
        for n in range(60):
            await asyncio.gather(send(store, note(n)), store.page(TENANT, "s1", 1, 10), store.head(TENANT, "s1"))
    finally:
        over.set()
        await flusher
    assert await texts(store) == list(range(60))


async def test_no_acknowledged_event_is_lost_when_the_engine_is_killed_under_load(
    engine: HeldEngine, store: EventStore, other: EventStore
) -> None:
    await create(store)
    acknowledged, over = list[list[object]](), asyncio.Event()

    async def writing(name: str, chosen: EventStore) -> None:
        n = 0
        while not over.is_set():
            n += 1
            try:
                await send(chosen, note([name, n]), retry=key(f"{name}{n}") if n % 2 else None)
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                acknowledged.append([name, n])

    async def progress() -> None:
        seen = len(acknowledged)
        await until(lambda: len(acknowledged) > seen + 20)

    writers = [asyncio.create_task(writing(f"w{n}", (store, other)[n % 2])) for n in range(8)]
    try:
        for _ in range(3):
            await progress()
            gone = engine.kill()
            await until(lambda gone=gone: engine.pid not in (0, gone))
        await progress()
    finally:
        over.set()
        await asyncio.gather(*writers)
    found = await texts(store)
    assert len(found) == len({tuple(text) for text in found}), "an event was written twice"
    assert [text for text in acknowledged if text not in found] == []


async def test_after_an_outage_everything_goes_on_without_a_restart(
    proxy: Proxy, opened: OpenStore, store: EventStore
) -> None:
    cut = await opened(proxy.url, timing=QUICK)
    await create(store)
    tail = generator(cut.follow(TENANT, "s1", 1))
    await anext(tail)
    following = asyncio.create_task(anext(tail))
    await proxy.down()
    began = time.monotonic()
    for _ in range(4):  # the first uses the budget up, and the others are told at once
        with pytest.raises(StoreUnavailable):
            await send(cut, note("lost"))
    assert time.monotonic() - began < QUICK.retry_s + 1
    await send(store, note("meanwhile"))
    await proxy.up()
    chunk = await asyncio.wait_for(following, 5)
    assert (chunk.first, b"meanwhile" in chunk.lines[0]) == (2, True)
    assert (await send(cut, note("after"))).result["first_seq"] == 3
    await tail.aclose()


async def test_deadlines_are_swept_again_after_an_outage(proxy: Proxy, opened: OpenStore) -> None:
    cut, watching = await opened(proxy.url, timing=QUICK), await opened(start=False)
    await create(watching)
    await proxy.down()
    await send(watching, ask("c1", expires_in_ms=300))
    await asyncio.sleep(QUICK.retry_s + 1)
    assert await count(watching, "input.expired") == 0
    await proxy.up()
    await until(lambda: count(watching, "input.expired"), 5)
    assert not any(task.done() for task in cut._tasks)


async def test_an_engine_that_hangs_is_waited_for(engine: HeldEngine, opened: OpenStore) -> None:
    timing = Timing(retry_s=0.3)
    store = await opened(timing=timing)
    await create(store)
    with engine.frozen():
        waiting = [asyncio.create_task(send(store, note(n))) for n in range(5)]
        await asyncio.sleep(timing.retry_s + 0.5)
        assert not any(task.done() for task in waiting)
    answers = await asyncio.gather(*waiting)
    assert [answer.result["first_seq"] for answer in answers] == [2, 3, 4, 5, 6]
    assert await texts(store) == list(range(5))


async def test_a_subscription_that_has_gone_silent_is_made_again(
    proxy: Proxy, opened: OpenStore, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.subscriber.PING_EVERY_S", 0.1)
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 60.0)
    await until(lambda: store.clock.known)
    resyncs = list[None]()
    cut = await opened(proxy.url, start=False)
    monkeypatch.setattr(cut._notifier, "announcements_missed", lambda: resyncs.append(None))
    cut.start()
    await until(lambda: resyncs)
    await asyncio.sleep(0.5)
    assert len(resyncs) == 1, "a quiet but healthy subscription was made anew"
    proxy.hold()
    await asyncio.sleep(0.5)
    proxy.flow()
    await until(lambda: len(resyncs) > 1)


@pytest.mark.parametrize(("option", "ping_every_s"), [("socket_timeout=0.1", 0.2), ("health_check_interval=1", 1.1)])
async def test_a_subscription_that_is_quiet_for_longer_than_the_url_allows_others_to_be_stays(
    engine: HeldEngine, redis: Redis, monkeypatch: pytest.MonkeyPatch, option: str, ping_every_s: float
) -> None:
    monkeypatch.setattr("eventstore.log.subscriber.PING_EVERY_S", ping_every_s)
    connection, keys, resyncs = RedisClient(f"{engine.url}?{option}"), Keys(4), list[None]()
    notifier = CommitNotifier(keys)
    monkeypatch.setattr(notifier, "announcements_missed", lambda: resyncs.append(None))

    async def pinged(times: int) -> bool:
        return (await redis.info("commandstats")).get("cmdstat_ping", {"calls": 0})["calls"] >= times

    await redis.config_resetstat()
    listening = asyncio.create_task(Subscriber(connection, keys, notifier).run())
    try:
        await until(lambda: resyncs)
        await until(lambda: pinged(3))
        assert len(resyncs) == 1
    finally:
        await end(listening)
        await connection.close()


async def test_an_engine_that_still_hangs_is_told_within_a_second(quick: RedisClient, proxy: Proxy) -> None:
    proxy.hold()
    soon = (0, QUICK.probe_s + 0.5)
    for least, most in ((0.8 * QUICK.reply_s, QUICK.reply_s + 1.5), soon, soon):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await quick.run(load_call(S1))
        assert least <= time.monotonic() - began < most
    began = time.monotonic()
    refused = await asyncio.gather(*(quick.command("GET", "x") for _ in range(100)), return_exceptions=True)
    assert {type(error) for error in refused} == {StoreUnavailable}
    assert time.monotonic() - began < QUICK.probe_s + 1
    proxy.flow()
    assert await quick.run(load_call(S1))
    assert not quick.nodes[0].down


async def let_go(redis: Redis, blocking: list[asyncio.Task[Any]]) -> None:
    """Answer those that wait for something in `none0`, `none1` and so on."""
    names = [f"none{n}" for n in range(len(blocking))]
    for name in names:
        await redis.rpush(name, "")
    await asyncio.gather(*blocking, return_exceptions=True)
    await redis.delete(*names)


async def test_connections_that_are_all_busy_are_no_outage(
    connection: RedisClient, redis: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "PATIENCE_S", 0.2)
    blocking = [asyncio.create_task(connection.command("BLPOP", f"none{n}", 4)) for n in range(MAX_CONNECTIONS)]
    await asyncio.sleep(0.05)
    with pytest.raises(Overloaded):
        await connection.command("PING")
    assert not connection.nodes[0].down
    assert "does not answer" not in caplog.text
    await let_go(redis, blocking)
    assert await connection.command("PING")


async def test_whoever_waits_for_a_connection_is_passed_by_nobody(
    connection: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many come again at once: else some of them wait until they are refused."""
    (engine,), served, under_way, most = connection.nodes, list[str](), 0, 0

    async def ask(*_: Any) -> list[Any]:
        nonlocal under_way, most
        task = asyncio.current_task()
        served.append(task.get_name() if task else "")
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return [None]

    async def come_twice() -> None:
        for _ in range(2):
            await connection.command("GET", "x")

    monkeypatch.setattr(engine, "_ask", ask)
    names = [f"caller {number:02}" for number in range(20)]
    await asyncio.gather(*(asyncio.create_task(come_twice(), name=name) for name in names))
    assert served == names * 2
    assert most == node.AT_ONCE


async def test_those_who_wait_when_the_engine_goes_away_hear_of_it_together(
    connection: RedisClient, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [asyncio.create_task(connection.command("BLPOP", f"none{n}", 4)) for n in range(node.AT_ONCE)]
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(connection.command("GET", "x")) for _ in range(100)]
    asked = 0

    async def no_answer() -> Exception:
        nonlocal asked
        asked += 1
        return RedisTimeoutError("no answer")

    monkeypatch.setattr(connection.nodes[0], "_ping", no_answer)
    connection.nodes[0].gone(TimeoutError())
    await let_go(redis, waits)
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in told} == {StoreUnavailable}
    assert asked < node.AT_ONCE


async def test_scripts_run_together_and_the_first_refusal_is_raised(connection: RedisClient, redis: Redis) -> None:
    assert [reply[1][0] for reply in await connection.run_each([load_call(S1)] * 3)] == [None] * 3
    assert await connection.run_each([]) == []
    await redis.set(S1.head, "no hash")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await connection.run_each([load_call(S1), load_call(S1)])
    await redis.delete(S1.head)
