"""How many events a second does a server take, durable before each answer?"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from benchmarks.benchmark import Benchmark, CannotRun, Run
from benchmarks.limits import empty_post, xadd
from benchmarks.load import closed_loop, post
from benchmarks.peers import durable_streams
from benchmarks.processes import Busy
from benchmarks.sides import BATCH, LAYBY, SINGLE, layby, numbered, sessions
from proofs.engines import Engine
from proofs.servers import Server

SINGLES, BATCHES, TWO = "single events, 64 connections", "batches of 100, 8 connections", "one process and two"
EMPTY, MEMORY, FILE, XADD = "empty POST", "Durable Streams, memory", "Durable Streams, file", "pipelined XADD"
PAIR = "Layby, two processes"
UNIT = "events/s"
Side = Callable[[float], Awaitable[None]]


async def measure(run: Run) -> None:
    with contextlib.ExitStack() as stack:
        sides = _layby(run, stack) + _limits(run, stack) + _peers(run, stack)
        for number in range(run.pick(quick=3, full=7)):
            run.tell(f"round {number + 1}")
            for side in sides:
                await side(run.pick(quick=2.0, full=4.0))
    run.at_least(SINGLES, LAYBY, EMPTY, 0.5)
    run.at_least(SINGLES, LAYBY, MEMORY, 1.5)
    run.at_least(SINGLES, LAYBY, FILE, 4)
    run.at_least(BATCHES, LAYBY, MEMORY, 1)
    run.at_least(BATCHES, LAYBY, XADD, 0.35)
    run.at_least(TWO, PAIR, LAYBY, 1.6)


def _layby(run: Run, stack: contextlib.ExitStack) -> list[Side]:
    server = stack.enter_context(layby(run.folder / "layby"))
    engine = stack.enter_context(Engine(run.folder / "engine"))
    pair = [
        stack.enter_context(layby(run.folder / f"layby-{n}", redis_url=engine.url, durability="fsync")) for n in (1, 2)
    ]
    assert engine.process
    one = Busy(server=server.pid, engine=server.engine_pid)
    two = Busy(first=pair[0].pid, second=pair[1].pid, engine=engine.process.pid)

    async def single(seconds: float) -> None:
        one.look()
        run.add(SINGLES, LAYBY, await _published([server], 64, SINGLE, 1, seconds), UNIT, "more")
        run.tell(f"busy with {SINGLES}: {one}")

    async def batch(seconds: float) -> None:
        one.look()
        run.add(BATCHES, LAYBY, await _published([server], 8, BATCH, 100, seconds), UNIT, "more")
        run.tell(f"busy with {BATCHES}: {one}")

    async def both(seconds: float) -> None:
        run.add(TWO, LAYBY, await _published(pair[:1], 64, SINGLE, 1, seconds), UNIT, "more")
        two.look()
        run.add(TWO, PAIR, await _published(pair, 64, SINGLE, 1, seconds), UNIT, "more")
        run.tell(f"busy with two processes: {two}")

    return [single, batch, both]


async def _published(servers: list[Server], connections: int, body: bytes, events: int, seconds: float) -> float:
    """Events a second; each connection has a session of its own."""
    paths = await sessions(servers[0], connections)
    requests = [post(f"{path}/events", body) for path in paths]
    return events * (await closed_loop([one.port for one in servers], requests, seconds)).rate


def _limits(run: Run, stack: contextlib.ExitStack) -> list[Side]:
    port = stack.enter_context(empty_post.running())
    engine = stack.enter_context(Engine(run.folder / "xadd"))

    async def empty(seconds: float) -> None:
        requests = [post(empty_post.PATH, SINGLE)] * 64
        run.add(SINGLES, EMPTY, (await closed_loop([port], requests, seconds)).rate, UNIT, "more")

    async def c_client(_: float) -> None:
        try:
            run.add(BATCHES, XADD, xadd.pipelined(engine.url), UNIT, "more")
        except CannotRun as reason:
            run.leave_out(XADD, str(reason))

    return [empty, c_client]


def _peers(run: Run, stack: contextlib.ExitStack) -> list[Side]:
    if reason := durable_streams.missing():
        run.leave_out("Durable Streams", reason)
        return []
    return [_peer(run, stack, name) for name in (MEMORY, FILE)]


def _peer(run: Run, stack: contextlib.ExitStack, name: str) -> Side:
    """On the same streams in every round: its file store keeps a hundred files open, and refuses an append whose file
    it has closed meanwhile."""
    peer = stack.enter_context(durable_streams.running("memory" if name == MEMORY else "file"))
    names = numbered("append")
    singles = [post(peer.create(next(names)), SINGLE) for _ in range(64)]
    batches = [post(peer.create(next(names)), BATCH) for _ in range(8)]

    async def side(seconds: float) -> None:
        run.add(SINGLES, name, (await closed_loop([peer.port], singles, seconds)).rate, UNIT, "more")
        run.add(BATCHES, name, 100 * (await closed_loop([peer.port], batches, seconds)).rate, UNIT, "more")

    return side


BENCHMARK = Benchmark("append", __doc__ or "", measure)
