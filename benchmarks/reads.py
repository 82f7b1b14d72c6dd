"""How long does a snapshot take, and the inbox, among few open calls and among very many?"""

from __future__ import annotations

import re
import statistics

from benchmarks.benchmark import Benchmark, Run
from benchmarks.connection import Connection
from benchmarks.load import get
from benchmarks.sides import asked, at_rest, each, grown, layby, question
from proofs.client import Client
from proofs.servers import Server

ONE, INBOX, UNIT = "a session of 100 events", "the inbox, its first 50 calls", "ms"
SNAPSHOT, UNCHANGED = "Layby, snapshot", "Layby, snapshot unchanged (304)"
FEW, FEW_CALLS = "Layby, of 100 open calls", 100
TIMES = 15
"""Of each request in a round; its value is their median."""


async def measure(run: Run) -> None:
    count = run.pick(quick=100, full=1_000)
    each_asks = run.pick(quick=50, full=100)
    many = f"Layby, of {count * each_asks:,} open calls"
    with layby(run.folder / "few") as few, layby(run.folder / "many") as crowded:
        await _parked(few, FEW_CALLS, 1)
        await _parked(crowded, count, each_asks)
        one = await _session(few)
        on_few, on_crowded = await Connection.to(few.port), await Connection.to(crowded.port)
        inbox = get("/v1/calls?limit=50")
        for _ in range(run.pick(quick=20, full=60)):
            run.add(ONE, SNAPSHOT, await _median(on_few, get(one)), UNIT, "less")
            tag = await _tag(on_few, one)
            run.add(ONE, UNCHANGED, await _median(on_few, get(one, f"If-None-Match: {tag}\r\n"), 304), UNIT, "less")
            run.add(INBOX, FEW, await _median(on_few, inbox), UNIT, "less")
            run.add(INBOX, many, await _median(on_crowded, inbox), UNIT, "less")
        on_few.close()
        on_crowded.close()
    run.at_most(INBOX, many, FEW, 2)


async def _median(connection: Connection, request: bytes, status: int = 200) -> float:
    """Milliseconds. Raises RuntimeError where the answer is another than expected."""
    heard = [await connection.ask(request, status) for _ in range(TIMES)]
    if unexpected := {one.status for one in heard} - {status}:
        raise RuntimeError(f"expected {status}: {unexpected}")
    return statistics.median(one.ms for one in heard)


async def _session(server: Server) -> str:
    async with server.client() as client:
        path = await grown(client, 100)
    await at_rest(server)
    return path


async def _tag(connection: Connection, path: str) -> str:
    found = re.search(rb"\r\netag: *(\S+)", (await connection.ask(get(path))).text, re.IGNORECASE)
    if not found:
        raise RuntimeError("a snapshot has no ETag")
    return found[1].decode()


async def _parked(server: Server, count: int, calls: int) -> None:
    """So many sessions that wait for so many calls each."""
    questions = [question(f"call-{number}") for number in range(calls)]

    async def ask(client: Client, _: int) -> None:
        await asked(client, "POST", f"{await grown(client, 1)}/events", questions)

    await each(server, range(count), ask)
    await at_rest(server)


BENCHMARK = Benchmark("reads", __doc__ or "", measure)
