"""What do a parked session and an event cost in the engine, and an idle tail and a cached head in the server?"""

from __future__ import annotations

import asyncio
import contextlib
import resource

from benchmarks.benchmark import Benchmark, Run
from benchmarks.processes import resident_kb
from benchmarks.reader import Reader
from benchmarks.sides import EVENT, asked, at_rest, each, grown, layby, question, sessions
from benchmarks.stored import engine_at, lines
from proofs.client import Client
from proofs.engines import Engine
from proofs.servers import Server

PARKED, EVENTS, SERVER = "engine: a parked session", "engine: an event, beyond its own JSON", "server"
LINKS = "connections to the engine"
BATCHED, SINGLY = "Layby, batches of 100", "Layby, one by one"
FULL = "Layby, one by one, feeds full"
FEED_KEEP = 200
"""Entries of a feed, which has one for each commit and no more than so many: few here, so that it is full at once."""
TAIL, HEAD = "Layby, an idle tail", "Layby, a cached head"
SETTLING_S = 2.0


async def measure(run: Run) -> None:
    with layby(run.folder / "sessions") as server:
        await _parked(run, server, run.pick(quick=500, full=5_000))
        for side, size in ((BATCHED, 100), (SINGLY, 1)):
            await _events(run, server, side, size, run.pick(quick=2_000, full=20_000))
    with layby(run.folder / "feeds", feed_keep=str(FEED_KEEP)) as server:
        await _events(run, server, FULL, 1, run.pick(quick=2_000, full=20_000))
    with layby(run.folder / "tails") as server:
        await _tails(run, server, run.pick(quick=500, full=2_000))
    await _heads(run, run.pick(quick=2_000, full=10_000))
    run.note(f"A commit has an entry in a feed, of at most LAYBY_FEED_KEEP entries: {FEED_KEEP} where feeds are full.")
    run.at_most(PARKED, "Layby", "", 5_000)
    run.at_most(EVENTS, BATCHED, "", 120)
    run.at_most(EVENTS, SINGLY, "", 120)
    run.at_most(EVENTS, FULL, "", 120)
    run.at_most(SERVER, TAIL, "", 30)
    run.at_most(SERVER, HEAD, "", 3)


async def _parked(run: Run, server: Server, count: int) -> None:
    await each(server, range(500), _park)  # what a store, and each of its partitions, takes once
    before = await _used(server)
    await each(server, range(count), _park)
    run.add(PARKED, "Layby", (await _used(server) - before) / count, "bytes", "less")


async def _park(client: Client, number: int) -> None:
    """A session as it waits: created with a message, a turn, an answer, a question."""
    created = {"agent": "support", "message": f"Please refund order {number}, it came broken."}
    path = f"/v1/sessions/{(await asked(client, 'POST', '/v1/sessions', created))['session_id']}"
    said = {"type": "message.completed", "data": {"text": f"I will refund order {number}."}}
    await asked(client, "POST", f"{path}/events", [{"type": "turn.started"}, said, question("refund")])


async def _events(run: Run, server: Server, side: str, size: int, count: int) -> None:
    """So many of them, in requests of this size, to a session that has some."""
    async with server.client() as client:
        path = await grown(client, 100)
        for _ in range(2 * FEED_KEEP):
            await asked(client, "POST", f"{path}/events", EVENT)
        before, held = await _used(server), _size_of_lines(server, path)
        for _ in range(count // size):
            await asked(client, "POST", f"{path}/events", [EVENT] * size)
        taken = await _used(server) - before - (_size_of_lines(server, path) - held)
        run.add(EVENTS, side, taken / count, "bytes", "less")


async def _tails(run: Run, server: Server, count: int) -> None:
    """They share a tenth as many sessions. What a tail takes in this process counts for nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * count)), hard))
    paths = await sessions(server, count // 10)
    await at_rest(server)
    for path in paths[:20]:
        (await _tail(server, path)).close()
    await asyncio.sleep(SETTLING_S)
    connections, before = _connections(server), resident_kb(server.pid)
    readers = list[Reader]()
    for start in range(0, count, 100):
        opening = [_tail(server, paths[n % len(paths)]) for n in range(start, min(start + 100, count))]
        readers += await asyncio.gather(*opening)
    await asyncio.sleep(SETTLING_S)
    run.add(SERVER, TAIL, (resident_kb(server.pid) - before) / count, "kB", "less")
    run.add(LINKS, "Layby, before the tails", connections, "connections")
    run.add(LINKS, f"Layby, with {count:,} tails", _connections(server), "connections")
    for reader in readers:
        reader.close()


async def _tail(server: Server, path: str) -> Reader:
    """It has read all that there is."""
    return (await Reader.of(server.port, f"{path}/stream", b"session.started"))[0]


async def _heads(run: Run, count: int) -> None:
    """Sessions that another server has made, so that this one has their heads from one append to each."""

    async def append(client: Client, path: str) -> None:
        await asked(client, "POST", f"{path}/events", EVENT)

    with Engine(run.folder / "engine") as engine:
        with layby(run.folder / "maker", redis_url=engine.url) as maker:
            warm, paths = await sessions(maker, 500), await sessions(maker, count)
        with layby(run.folder / "holder", redis_url=engine.url) as holder:
            await each(holder, warm, append)
            await at_rest(holder)
            before = resident_kb(holder.pid)
            await each(holder, paths, append)
            await at_rest(holder)
            run.add(SERVER, HEAD, (resident_kb(holder.pid) - before) / count, "kB", "less")


async def _used(server: Server) -> int:
    """Bytes in the engine, once the read models are up to date."""
    await at_rest(server)
    with contextlib.closing(engine_at(server.engine_url)) as engine:
        return int(engine.info("memory")["used_memory"])


def _size_of_lines(server: Server, path: str) -> int:
    with contextlib.closing(engine_at(server.engine_url)) as engine:
        return sum(map(len, lines(engine, path)))


def _connections(server: Server) -> int:
    """Of others than this process."""
    with contextlib.closing(engine_at(server.engine_url)) as engine:
        return len(engine.client_list()) - 1


BENCHMARK = Benchmark("memory", __doc__ or "", measure)
