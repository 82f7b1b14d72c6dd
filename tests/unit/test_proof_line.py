"""The frames of a line, as the clients of proofs, benchmarks and tests make and read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from proofs.line import CLOSE, PING, TEXT, Goodbye, Line, Refused, frame, frames, opened_line

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("size", "head"), [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)])
def test_a_frame_of_a_client_is_masked_with_a_mask_that_changes_nothing(size: int, head: int) -> None:
    made = frame(b"x" * size)
    assert made[1] & 0x80
    assert made[head : head + 4] == bytes(4)
    assert made[head + 4 :] == b"x" * size


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frames_of_a_server_are_found_wherever_they_are_cut(size: int) -> None:
    masked = frame(b"x" * size)
    head = len(masked) - size - 4
    whole = bytes((masked[0], masked[1] & 0x7F)) + masked[2:head] + b"x" * size
    for cut in {0, 1, min(head, size), len(whole) - 1}:
        assert frames(whole + whole[:cut]) == ([(TEXT, b"x" * size)], whole[:cut])


def said(payload: bytes, kind: int = TEXT) -> bytes:
    """A short frame of a server."""
    return bytes((0x80 | kind, len(payload))) + payload


@asynccontextmanager
async def a_line(*sent: bytes) -> AsyncGenerator[Line]:
    """To a server that says this and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(sent))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, opened_line(server.sockets[0].getsockname()[1], "/", limit_s=30) as line:
        yield line


@pytest.mark.anyio
async def test_a_line_passes_over_pings_and_tells_of_a_goodbye() -> None:
    async with a_line(SWITCHED, said(b"", PING), said(b'{"id":"1"}'), said(b"\x03\xf0why", CLOSE)) as line:
        assert await line.answer() == {"id": "1"}
        with pytest.raises(Goodbye, match="1008 b'why'"):
            await line.answer()


@pytest.mark.anyio
@pytest.mark.parametrize("kept", range(len(said(b'{"id":"1"}'))))
async def test_an_answer_that_is_cut_is_none(kept: int) -> None:
    async with a_line(SWITCHED, said(b'{"id":"1"}')[:kept]) as line:
        with pytest.raises(EOFError):
            await line.answer()


@pytest.mark.anyio
async def test_a_handshake_that_is_refused_tells_why() -> None:
    with pytest.raises(Refused, match="404 b'no'"):
        async with a_line(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"):
            pytest.fail("it was taken for a line")
