"""How fast is a whole session read, beside an XRANGE loop over the same stream, and Durable Streams?"""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable
from http.client import HTTPConnection

from benchmarks.benchmark import Benchmark, Run
from benchmarks.connection import Connection
from benchmarks.load import post
from benchmarks.peers import durable_streams
from benchmarks.sides import asked, grown, layby
from benchmarks.stored import engine_at, lines, log_key
from proofs.engines import EngineClient
from proofs.servers import Server

HISTORY, UNIT = "a whole session", "MB/s"
STREAM, PAGES, XRANGE = "Layby, one stream", "Layby, pages of 10,000", "XRANGE loop, COUNT 1000"
MEMORY, FILE = "Durable Streams, memory", "Durable Streams, file"
NDJSON = {"Accept": "application/x-ndjson"}
AT_LEAST_S = 1.0
Read = Callable[[], int]
"""Reads all of it; gives how many events that were."""


async def measure(run: Run) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(layby(run.folder))
        path = await _ended(server, run.pick(quick=20_000, full=200_000))
        engine = stack.enter_context(contextlib.closing(engine_at(server.engine_url)))
        key, events = log_key(engine, path), lines(engine, path)
        sides: dict[str, Read] = {
            STREAM: lambda: _streamed(server.port, path),
            PAGES: lambda: _paged(server.port, path),
            XRANGE: lambda: _ranged(engine, key),
            **await _peers(run, stack, events),
        }
        size = sum(map(len, events)) / 1e6
        run.note(f"{len(events):,} events, {size:.1f} MB of lines; what frames them on the way is not counted.")
        for number in range(run.pick(quick=3, full=7)):
            run.tell(f"round {number + 1}")
            for side, read in sides.items():
                run.add(HISTORY, side, size * _rate(read, len(events)), UNIT, "more")
    for ours in (STREAM, PAGES):
        run.at_least(HISTORY, ours, XRANGE, 0.8)
        run.at_least(HISTORY, ours, MEMORY, 2)
        run.at_least(HISTORY, ours, FILE, 2)


async def _ended(server: Server, events: int) -> str:
    """A session that is over, so that a stream of it ends by itself."""
    async with server.client() as client:
        path = await grown(client, events - 1)
        await asked(client, "POST", f"{path}/events", {"type": "session.completed"})
    return path


def _rate(read: Read, events: int) -> float:
    """Readings a second, of as many as fit. Raises RuntimeError where one misses something."""
    began, times = time.perf_counter(), 0
    while (taken := time.perf_counter() - began) < AT_LEAST_S:
        if (found := read()) != events:
            raise RuntimeError(f"{found} events were read of {events}")
        times += 1
    return times / taken


def _streamed(port: int, path: str) -> int:
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as connection:
        return _get(connection, f"{path}/stream")[0].count(b"\n") - 1  # the last line tells the end


def _paged(port: int, path: str) -> int:
    events, following = 0, "1"
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as connection:
        while following:
            body, answer = _get(connection, f"{path}/events?limit=10000&from={following}")
            events += body.count(b"\n")
            following = answer.headers["Layby-Next-From"] or ""
    return events


def _ranged(engine: EngineClient, key: str) -> int:
    events, after = 0, "-"
    while page := engine.xrange(key, after, count=1000):
        events += len(page)
        after = b"(" + page[-1][0]
    return events


def _array(port: int, path: str) -> int:
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as connection:
        return _get(connection, path)[0].count(b'{"seq":')


def _get(connection: HTTPConnection, path: str) -> tuple[bytes, http.client.HTTPResponse]:
    connection.request("GET", path, headers=NDJSON)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"GET {path}: {answer.status} {body[:300]!r}")
    return body, answer


async def _peers(run: Run, stack: contextlib.ExitStack, events: list[bytes]) -> dict[str, Read]:
    if reason := durable_streams.missing():
        run.leave_out("Durable Streams", reason)
        return {}
    memory, file = (stack.enter_context(durable_streams.running(store)) for store in ("memory", "file"))
    return {MEMORY: await _told(memory, events), FILE: await _told(file, events)}


async def _told(peer: durable_streams.DurableStreams, events: list[bytes]) -> Read:
    """The same events, in batches of 100."""
    path, connection = peer.create("history"), await Connection.to(peer.port)
    for start in range(0, len(events), 100):
        await connection.ask(post(path, b"[" + b",".join(events[start : start + 100]) + b"]"))
    connection.close()
    return lambda: _array(peer.port, durable_streams.history(path))


BENCHMARK = Benchmark("history", __doc__ or "", measure)
