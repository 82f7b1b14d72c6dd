"""The stand-in for the network does to a request what each fault says, and forwards all else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import pytest

from proofs import proxy as faults
from proofs.proxy import Fault, Proxy

pytestmark = pytest.mark.anyio
REQUEST, REPLY = b"POST / HTTP/1.1\r\n\r\none\ntwo\n", b"a reply of more than forty bytes, so that it can be cut within"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Upstream:
    """Answers when it has a whole request; remembers what it got."""

    heard: bytes = b""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.heard += data
                if self.heard.endswith(REQUEST):
                    writer.write(REPLY)
        except OSError:
            pass
        self.ended.set()
        writer.close()


@pytest.fixture
async def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncGenerator[Proxy]:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    async with Proxy(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", concerns=faults.is_request) as between:
        yield between
    server.close()


async def ask(proxy: Proxy, wanted: int) -> bytes:
    """What comes back, up to so many bytes or the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(REQUEST)
    got = b""
    async with asyncio.timeout(30):
        while len(got) < wanted and (data := await reader.read(1 << 16)):
            got += data
    writer.close()
    return got


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("fault", [None, faults.SLOW, faults.SPLIT])
async def test_everything_comes_through(proxy: Proxy, upstream: Upstream, fault: Fault | None) -> None:
    proxy.faults.extend([fault] if fault else [])
    assert await ask(proxy, len(REPLY)) == REPLY
    assert upstream.heard == REQUEST


@pytest.mark.parametrize(
    ("fault", "heard", "reply"),
    [
        (faults.CUT_BEFORE, b"", b""),
        (faults.CUT_WITHIN, REQUEST[: len(REQUEST) // 2], b""),
        (faults.CUT_AT_A_LINE, REQUEST[:-4], b""),
        (faults.CUT_AFTER, REQUEST, b""),
        (faults.CUT_REPLY, REQUEST, REPLY[:40]),
    ],
)
async def test_a_cut_lets_through_what_it_says(
    proxy: Proxy, upstream: Upstream, fault: Fault, heard: bytes, reply: bytes
) -> None:
    proxy.faults.append(fault)
    assert await ask(proxy, 1 << 16) == reply
    await asyncio.wait_for(upstream.ended.wait(), 30)
    assert upstream.heard == heard
    assert await ask(proxy, len(REPLY)) == REPLY, "the next request meets no fault"


@pytest.mark.parametrize("fault", [faults.RESET_WITHIN, faults.RESET_AFTER])
async def test_a_reset_is_one(proxy: Proxy, fault: Fault) -> None:
    proxy.faults.append(fault)
    with pytest.raises(ConnectionResetError):
        await ask(proxy, 1 << 16)


@pytest.mark.parametrize(("fault", "heard"), [(faults.SILENT_BEFORE, b""), (faults.SILENT_AFTER, REQUEST)])
async def test_a_half_open_connection_stays_open(proxy: Proxy, upstream: Upstream, fault: Fault, heard: bytes) -> None:
    proxy.faults.append(fault)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(REQUEST)
    await until(lambda: proxy.befell == 1 and upstream.heard == heard)
    assert await ask(proxy, len(REPLY)) == REPLY, "another connection works meanwhile"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.2)
    writer.close()


async def test_where_a_reply_was_lost_none_follows(proxy: Proxy, upstream: Upstream) -> None:
    """Not even after another fault: no connection loses what was said in the middle."""
    proxy.faults.extend([faults.SILENT_AFTER, faults.SLOW, faults.CUT_BEFORE])
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    for number in (1, 2):
        writer.write(REQUEST)
        await until(lambda number=number: upstream.heard == REQUEST * number)
    writer.write(REQUEST)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()


async def test_what_is_not_concerned_meets_no_fault(proxy: Proxy) -> None:
    proxy.faults.append(faults.CUT_BEFORE)
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"GET / HTTP/1.1\r\n" + REQUEST)
    assert await asyncio.wait_for(reader.readexactly(len(REPLY)), 30) == REPLY
    assert len(proxy.faults) == 1
    writer.close()
