"""What the proofs' client makes of an answer that is whole, cut, or does not come: no cut may pass for an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from proofs.client import Client, opened, stream_lines

pytestmark = pytest.mark.anyio
CHUNKED = b"HTTP/1.1 200 OK\r\nX-One:  1\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b'6\r\n{"a":1\r\n5\r\n}\n\n{"\r\n5\r\nb":2}\r\n1\r\n\n\r\n0\r\n\r\n'


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Told:
    """A server that says what it is told to say, and then ends the connection, or never does."""

    port: int
    answer: bytes = b""
    ends: bool = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        if not self.ends:
            await reader.read()
        writer.close()


@pytest.fixture
async def told() -> AsyncGenerator[Told]:
    one = Told()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    yield one
    server.close()


async def test_lines_come_whole_however_they_are_cut_into_chunks(told: Told) -> None:
    told.answer, lines = CHUNKED + WHOLE, list[bytes]()
    async with opened(told.port, "/stream", limit_s=30) as (head, reader):
        async for more in stream_lines(reader):
            lines += more
    assert (head.status, head.headers["x-one"]) == (200, "1")
    assert lines == [b'{"a":1}', b"", b'{"b":2}']


async def test_a_body_in_chunks_is_put_together(told: Told) -> None:
    told.answer = CHUNKED + WHOLE
    async with Client(told.port) as client:
        assert (await client.request("GET", "/")).body == b'{"a":1}\n\n{"b":2}\n'


@pytest.mark.parametrize("kept", range(1, len(WHOLE)))
async def test_a_body_that_is_cut_is_no_answer(told: Told, kept: int) -> None:
    told.answer = CHUNKED + WHOLE[:kept]
    async with Client(told.port) as client:
        with pytest.raises(EOFError):
            await client.request("GET", "/")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nX-"])
async def test_a_head_that_is_cut_is_no_answer(told: Told, answer: bytes) -> None:
    told.answer = answer
    with pytest.raises(EOFError):
        async with opened(told.port, "/stream", limit_s=30):
            pytest.fail("it was taken for an answer")


async def test_a_head_that_does_not_come_is_not_waited_for_without_end(told: Told) -> None:
    told.ends = False
    with pytest.raises(TimeoutError):
        async with opened(told.port, "/stream", limit_s=0.2):
            pytest.fail("it was taken for an answer")
