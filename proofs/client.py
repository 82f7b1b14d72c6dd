"""A lean HTTP client: one kept-alive connection, limits of time, and retries that cannot double anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeGuard

LINE_LIMIT = 1 << 25
TIMEOUT_S = 30.0
_CUT = (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object. `isinstance` says the same, but not of what."""
    return isinstance(value, dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered. Names of headers are in lower case; of a repeated one the last counts."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The slug of a problem; empty if it is none."""
        kind = self.headers.get("content-type", "")
        return str(self.json()["type"]).rpartition("/")[2] if kind.startswith("application/problem+json") else ""

    def __str__(self) -> str:
        return f"{self.status} {self.body[:300]!r}"


def expect(answer: Answer, status: int) -> Answer:
    """A request that must succeed, for the proof to go on at all."""
    if answer.status != status:
        raise RuntimeError(f"expected {status}: {answer}")
    return answer


class Client:
    """Requests to one server, one after another."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", key: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.port, self.host, self.timeout_s = port, host, timeout_s
        self._always = f"Authorization: Bearer {key}\r\n" if key else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next request makes a new one."""
        if self._streams:
            self._streams[1].close()
            self._streams = None

    async def request(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        """One try. `body` is sent as JSON, or as it is if it is bytes.

        Raises OSError, EOFError, ValueError or TimeoutError where no whole answer came: what became of the request is
        unknown then, and the connection is closed.
        """
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Length: {len(sent)}\r\n"
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, writer = await self._connected()
                writer.write((head + self._always + more + "\r\n").encode() + sent)
                return await self._answer(reader)
        except BaseException:
            self.close()
            raise

    async def insist(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str = "",
        limit_s: float = 60.0,
        headers: dict[str, str] | None = None,
    ) -> tuple[Answer, int]:
        """Repeat with one Idempotency-Key, over cut connections, 503 and `request-in-progress`, until there is an
        answer. Returns it, and how many tries it took. Raises TimeoutError."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex, **(headers or {})}
        give_up, tries = asyncio.get_running_loop().time() + limit_s, 0
        while True:
            tries += 1
            try:
                answer = await self.request(method, path, body, headers=headers)
                if answer.status != 503 and answer.problem != "request-in-progress":
                    return answer, tries
                last = str(answer)
            except _CUT as error:
                last = repr(error)
            if asyncio.get_running_loop().time() > give_up:
                raise TimeoutError(f"{method} {path}: no answer within {limit_s} s; at last {last}")
            await asyncio.sleep(random.uniform(0.01, 0.1))

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port, limit=LINE_LIMIT)
        return self._streams

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        answer = await read_body(reader, await read_head(reader))
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer


async def read_head(reader: asyncio.StreamReader) -> Answer:
    """An answer whose body is still to come. Raises EOFError where it is cut."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split(" ")[1]), headers, b"")


async def read_body(reader: asyncio.StreamReader, head: Answer) -> Answer:
    """The whole answer. Raises EOFError where it is cut."""
    if head.status in (204, 304):
        return head
    if head.headers.get("transfer-encoding") == "chunked":
        return replace(head, body=await _chunks(reader))
    return replace(head, body=await reader.readexactly(int(head.headers.get("content-length", "0"))))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


@contextlib.asynccontextmanager
async def opened(
    port: int, path: str, headers: Mapping[str, str] | None = None, *, limit_s: float | None = None
) -> AsyncGenerator[tuple[Answer, asyncio.StreamReader]]:
    """GET something that comes bit by bit, on a connection of its own: the head of the answer, and the reader of what
    follows. Raises OSError, EOFError, or TimeoutError where the head does not come in time."""
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_LIMIT)
    try:
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n".encode())
        async with asyncio.timeout(limit_s):
            head = await read_head(reader)
        yield head, reader
    finally:
        writer.close()


async def stream_lines(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """The lines of a stream, heartbeats too: after each chunk those that are whole, until it ends or is cut off.

    Raises EOFError where it is cut within a chunk, OSError, and TimeoutError where not even a heartbeat comes."""
    rest = b""
    while size := int(await asyncio.wait_for(reader.readline(), TIMEOUT_S) or b"0", 16):
        *lines, rest = (rest + (await reader.readexactly(size + 2))[:-2]).split(b"\n")
        yield lines


async def page_through(client: Client, session_id: str) -> list[dict[str, Any]]:
    """Every event of a session, as it is read over HTTP."""
    events, start = list[dict[str, Any]](), 1
    while start:
        path = f"/v1/sessions/{session_id}/events?from={start}&limit=10000"
        answer = await client.request("GET", path, headers={"Accept": "application/json"})
        if answer.status != 200:
            raise ValueError(f"GET {path}: {answer}")
        page = answer.json()
        events += page["events"]
        start = page["next_from"]
    return events
