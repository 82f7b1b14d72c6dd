"""Replies that were not read to their end are read by nobody else, on every event loop and with fakeredis."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator
from typing import Any

import fakeredis
import pytest
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from eventstore.redis_client.connections import TrackedConnection
from eventstore.redis_client.node import AWAY, connect
from eventstore.redis_client.round_trip import RoundTrips
from eventstore.support.timing import TIMING
from tests.integration.played_engine import client_of, introduced
from tests.integration.stores import until
from tests.scripts.engines import HeldEngine

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(params=["valkey", "fakeredis"])
async def client(request: pytest.FixtureRequest, engine: HeldEngine) -> AsyncGenerator[Any]:
    one: Any = connect(engine.url) if request.param == "valkey" else fakeredis.FakeAsyncRedis()
    yield one
    await one.aclose()
    await one.connection_pool.disconnect()


@pytest.fixture
def used(client: Any, monkeypatch: pytest.MonkeyPatch) -> list[AbstractConnection]:
    """The connections that replies were read from, one for each reply."""
    kind, found = client.connection_pool.connection_class, list[AbstractConnection]()
    read: Any = kind.read_response

    async def read_and_note(self: AbstractConnection, *args: Any, **options: Any) -> Any:
        try:
            return await read(self, *args, **options)
        finally:
            found.append(self)

    monkeypatch.setattr(kind, "read_response", read_and_note)
    return found


async def test_refusals_in_the_middle_stand_in_their_places_and_close_nothing(
    client: Any, used: list[AbstractConnection]
) -> None:
    exchange = RoundTrips(client.connection_pool)
    commands = [("NOSUCH",) if number % 7 == 3 else ("ECHO", number) for number in range(50)]
    replies = await exchange.run(commands, 5)
    for number, reply in enumerate(replies):
        if number % 7 == 3:
            assert isinstance(reply, redis_errors.ResponseError)
            assert reply.__traceback__ is None, "it would hold the frame that holds it"
        else:
            assert reply == b"%d" % number
    assert await exchange.run([("ECHO", "again")], 5) == [b"again"]
    assert len(set(used)) == 1


async def test_a_round_trip_that_is_cancelled_between_its_replies_closes_its_connection(
    client: Any, used: list[AbstractConnection]
) -> None:
    exchange = RoundTrips(client.connection_pool)
    await exchange.run([("ECHO", "before")], 5)
    [connection], _ = set(used), used.clear()
    waiting = asyncio.create_task(exchange.run([("ECHO", "theirs"), ("BLPOP", "nothing", 1), ("ECHO", "theirs")], 5))
    await until(lambda: used)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not connection.is_connected
    assert await exchange.run([("ECHO", "mine")] * 3, 5) == [b"mine"] * 3


async def test_whatever_ends_a_round_trip_closes_its_connection(
    client: Any, used: list[AbstractConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = RoundTrips(client.connection_pool)
    await exchange.run([("ECHO", "before")], 5)
    [connection] = set(used)

    async def fail(*_: Any, **__: Any) -> None:
        raise ValueError("of nobody's kind, and closes nothing")

    with monkeypatch.context() as patch:
        patch.setattr(type(connection), "read_response", fail)
        with pytest.raises(ValueError, match="of nobody's kind"):
            await exchange.run([("ECHO", "theirs")], 5)
    assert not connection.is_connected
    assert await exchange.run([("ECHO", "mine")], 5) == [b"mine"]


async def test_the_socket_timeout_of_the_url_does_not_cut_a_round_trip_short(engine: HeldEngine) -> None:
    client = connect(f"{engine.url}?socket_timeout=0.1")
    try:
        assert await RoundTrips(client.connection_pool).run([("BLPOP", "nothing", "0.4")], 5) == [None]
    finally:
        await client.aclose()
        await client.connection_pool.disconnect()


async def test_redis_py_times_its_own_work_again_once_the_round_trip_is_over(
    client: Any, used: list[AbstractConnection]
) -> None:
    client.connection_pool.connection_kwargs["socket_timeout"] = TIMING.reply_s  # the stand-in has none of its own
    exchange = RoundTrips(client.connection_pool)
    await exchange.run([("NOSUCH",)], 5)
    with pytest.raises(redis_errors.TimeoutError):
        await exchange.run([("BLPOP", "nothing", 1)], 0.05)
    assert {connection.socket_timeout for connection in used} == {TIMING.reply_s}


async def test_half_a_reply_is_closed_with_its_connection_where_the_caller_goes_away() -> None:
    half_sent, gone = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.readuntil(b"ECHO")
        if half_sent.is_set():
            writer.write(b"+mine\r\n")
        else:
            writer.write(b"+theirs\r\n$6\r\nthe")
            half_sent.set()
            await gone.wait()
            writer.write(b"irs\r\n")
        await reader.read()

    async with client_of(answer) as client:
        exchange = RoundTrips(client.connection_pool)
        waiting = asyncio.create_task(exchange.run([("ECHO", "theirs")] * 2, 5))
        await half_sent.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gone.set()
        assert await exchange.run([("ECHO", "mine")], 5) == [b"mine"]


@pytest.mark.parametrize("refusal", ["LOADING the dataset", "NOAUTH Authentication required."])
async def test_a_refusal_of_the_connection_itself_ends_the_round_trip_and_closes_it(refusal: str) -> None:
    served = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        await introduced(reader, writer)
        await reader.readuntil(b"ECHO")
        writer.write(f"+one\r\n-{refusal}\r\n+theirs\r\n".encode() if served == 1 else b"+mine\r\n")
        await reader.read()

    async with client_of(answer) as client:
        exchange = RoundTrips(client.connection_pool)
        with pytest.raises(redis_errors.ConnectionError, match=refusal.partition(" ")[2]):
            await exchange.run([("ECHO", "theirs")] * 3, 5)
        assert await exchange.run([("ECHO", "mine")], 5) == [b"mine"]
        assert served == 2


async def test_many_large_replies_may_take_longer_than_one_patience() -> None:
    count, patience_s = 6, 0.6

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.readuntil(b"GET")
        for number in range(count):
            writer.write(b"$%d\r\n" % MIB)
            for _ in range(2):
                await asyncio.sleep(patience_s / 4)  # a slow network
                writer.write(b"%d" % number * (MIB // 2))
                await writer.drain()
            writer.write(b"\r\n")
        await reader.read()

    async with client_of(answer) as client:
        replies = await RoundTrips(client.connection_pool).run([("GET", "layby:x")] * count, patience_s)
    assert replies == [b"%d" % number * MIB for number in range(count)]


async def test_a_request_that_nobody_takes_in_is_given_up_after_one_patience() -> None:
    given_up, closed = asyncio.Event(), asyncio.Event()

    async def take_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        transport: Any = writer.transport  # a stream's, which reads too
        transport.pause_reading()
        await given_up.wait()
        transport.resume_reading()
        while await reader.read(MIB):
            pass
        closed.set()

    async with client_of(take_nothing) as client, asyncio.timeout(15):
        with pytest.raises(redis_errors.TimeoutError):
            await RoundTrips(client.connection_pool).run([("SET", "layby:x", bytes(64 * MIB))], 0.2)
        given_up.set()
        await closed.wait()


async def test_a_connection_that_the_network_gave_up_is_no_empty_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """ETIMEDOUT is a `TimeoutError` to Python; redis-py may take it for the end of a wait that the caller limited."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.read()

    async def give_up(*_: Any) -> bytes:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    async with client_of(answer) as client:
        exchange, pool = RoundTrips(client.connection_pool), client.connection_pool
        connection: TrackedConnection = await pool.get_connection()
        await pool.release(connection)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.StreamReader, "read", give_up)
            with pytest.raises(AWAY):
                await exchange.run([("GET", "layby:x")], 5)
        assert not connection.is_connected
