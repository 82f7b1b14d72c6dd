"""Round trips that keep their connections."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions as redis_errors
from redis.asyncio import Redis

from eventstore.redis_client.connections import is_quiet
from eventstore.redis_client.node import MAX_CONNECTIONS, connect
from eventstore.redis_client.round_trip import RoundTrips
from proofs import faults
from tests.architecture.tree import ROOT
from tests.integration.stores import until
from tests.scripts.engines import HeldEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(engine: HeldEngine, redis: Redis) -> Any:
    one = connect(engine.url)
    yield one
    await one.aclose()
    await one.connection_pool.disconnect()


async def ids(exchange: RoundTrips, at_once: int = 1) -> list[int]:
    """Of the connections that as many round trips at once take."""
    found = await asyncio.gather(*(exchange.run([("CLIENT", "ID")], 5) for _ in range(at_once)))
    return sorted(reply for [reply] in found)


async def blocked(redis: Redis, count: int = 1) -> bool:
    """Whether this many connections wait for a reply."""
    return (await redis.info("clients"))["blocked_clients"] == count


async def test_replies_come_in_the_order_of_the_commands_and_a_refusal_in_its_place(client: Any) -> None:
    replies = await RoundTrips(client.connection_pool).run([("ECHO", b"\xff"), ("NOSUCH",), ("ECHO", 2)], 5)
    assert (replies[0], replies[2]) == (b"\xff", b"2")
    assert isinstance(replies[1], redis_errors.ResponseError)


async def test_a_connection_is_used_again_and_as_many_as_are_needed_at_once(client: Any) -> None:
    exchange = RoundTrips(client.connection_pool)
    assert await ids(exchange) == await ids(exchange)
    several = await ids(exchange, 4)
    assert (len(set(several)), await ids(exchange, 4)) == (4, several)


async def test_a_connection_that_was_cut_while_nobody_used_it_is_replaced_at_once(client: Any, redis: Redis) -> None:
    exchange = RoundTrips(client.connection_pool)
    before = await ids(exchange, 3)
    for one in before:
        await redis.execute_command("CLIENT", "KILL", "ID", one)

    async def is_known() -> bool:
        return not any([await is_quiet(each) for each in exchange._idle])

    await until(is_known)
    after = await ids(exchange, 3)
    assert len(set(after)) == 3
    assert not set(before) & set(after)


async def test_one_that_is_late_is_closed_so_that_nobody_hears_its_reply(client: Any) -> None:
    exchange = RoundTrips(client.connection_pool)
    [before] = await ids(exchange)
    with pytest.raises(redis_errors.TimeoutError):
        await exchange.run([("BLPOP", "nothing", 1)], 0.05)
    [after] = await ids(exchange)
    assert after != before
    assert await exchange.run([("ECHO", "mine")], 5) == [b"mine"]


async def test_replies_that_keep_coming_may_take_longer_in_all(client: Any) -> None:
    exchange = RoundTrips(client.connection_pool)
    assert await exchange.run([("BLPOP", "nothing", "0.2")] * 4, 0.5) == [None] * 4


async def test_a_round_trip_that_is_cancelled_leaves_no_connection_behind_that_waits(client: Any, redis: Redis) -> None:
    exchange = RoundTrips(client.connection_pool)
    for _ in range(2 * MAX_CONNECTIONS):
        waiting = asyncio.create_task(exchange.run([("BLPOP", "nothing", 5)], 5))
        await until(lambda: blocked(redis))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: blocked(redis, 0))
    assert await exchange.run([("ECHO", "mine")], 5) == [b"mine"]


async def test_an_engine_that_is_gone_is_an_error_of_connections_and_is_found_again(client: Any, redis: Redis) -> None:
    exchange = RoundTrips(client.connection_pool)
    [one] = await ids(exchange)
    under_way = asyncio.create_task(exchange.run([("BLPOP", "nothing", 2)], 5))
    await until(lambda: blocked(redis))
    await redis.execute_command("CLIENT", "KILL", "ID", one)
    with pytest.raises(redis_errors.ConnectionError):
        await under_way
    assert len(await ids(exchange)) == 1


def test_the_crash_proof_is_told_of_a_script_that_has_left(engine: HeldEngine, tmp_path: Path) -> None:
    plan, alive = tmp_path / "plan", tmp_path / "alive"
    faults.plan(plan, "sent", 1, ["self"])
    code = f"""
import asyncio
from pathlib import Path
from proofs import faults
faults.watch_sending("sent", "f" * 40)
from eventstore.redis_client.round_trip import RoundTrips
from eventstore.redis_client.node import connect

async def main():
    exchange = RoundTrips(connect({engine.url!r}).connection_pool)
    await exchange.run([("ECHO", "another")], 5)
    Path({str(alive)!r}).touch()
    await exchange.run([("EVALSHA", "f" * 40, 0)], 5)

asyncio.run(main())
"""
    environment = os.environ | {faults.PLAN: str(plan)}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, timeout=60, check=False)
    assert (ended.returncode, alive.exists()) == (-signal.SIGKILL, True)
