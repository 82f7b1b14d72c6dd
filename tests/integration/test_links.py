"""A connection that is lost in the middle of something is an engine that is away, on every event loop."""

from __future__ import annotations

import asyncio
import random
import socket
import socketserver
import struct
import threading
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest
from redis.exceptions import ConnectionError as Lost

from eventstore.redis_client.node import AWAY, Node, Request, connect
from eventstore.redis_client.sentinel import SentinelTopology
from eventstore.redis_client.url import parse
from tests.integration.played_engine import client_of, introduced

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class _Moody(socketserver.BaseRequestHandler):
    """Answers some of what it is asked, in a thread of its own, and resets the connection at any moment."""

    moods: random.Random = random.Random(7)

    def handle(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(OSError):
            answered = asked = self.moods.randint(0, 2)
            while asked and answered == asked:
                asked = self.request.recv(65536).count(b"*")
                answered = asked and self.moods.randint(asked - 1, asked)
                self.request.sendall(b"+OK\r\n" * answered)
                if self.moods.random() < 0.3:
                    break
        self.request.close()


@pytest.fixture
def moody() -> Generator[Node]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Moody) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Node(connect(f"redis://127.0.0.1:{server.server_address[1]}/0"))
        server.shutdown()
        thread.join()


async def test_whatever_moment_it_is_reset_or_let_go_of_at_the_engine_is_away(moody: Node) -> None:
    others = list[Exception]()

    async def ask_often() -> None:
        for _ in range(150):
            try:
                await moody.ask([Request(("GET", "layby:x"))] * 5, ())
            except AWAY:
                pass
            except Exception as error:
                others.append(error)

    asking = asyncio.gather(*(ask_often() for _ in range(8)))
    while not asking.done():
        await asyncio.sleep(0.03)
        await moody.close()  # it connects again for whoever asks again
    assert others == []


async def test_writing_to_a_socket_that_was_closed_meanwhile_finds_a_lost_connection() -> None:
    async with client_of(introduced) as client:
        link = client.connection_pool.make_connection()
        await link.connect()
        link._writer.transport.abort()
        await link._writer.wait_closed()
        with pytest.raises(Lost):
            await link.send_command("PING")


async def test_who_waits_for_a_node_that_is_let_go_of_finds_a_lost_connection() -> None:
    under_way = asyncio.Event()

    async def answer_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        await reader.readuntil(b"LRANGE")
        writer.write(b"*2\r\n$1\r\na\r\n")
        await writer.drain()
        under_way.set()
        await reader.read()

    async with client_of(answer_half) as client:
        node = Node(client)
        asked = asyncio.create_task(node.ask([Request(("LRANGE", "layby:x", 0, -1))], ()))
        await under_way.wait()
        await node.close()
        with pytest.raises(Lost):
            await asked


@pytest.mark.parametrize("url", ["redis://h", "rediss://h", "unix:///h"])
async def test_every_way_to_an_engine_tells_that_it_is_lost(url: str) -> None:
    assert connect(url).connection_pool.connection_class.__module__ == "eventstore.redis_client.connections"


async def test_so_does_the_way_to_a_sentinel() -> None:
    for sentinel in SentinelTopology(parse("redis+sentinel://a,b/master"))._sentinels.sentinels:
        assert sentinel.connection_pool.connection_class.__module__ == "eventstore.redis_client.connections"
