"""How soon do 200 readers of one session have an event, beside Durable Streams in memory?"""

from __future__ import annotations

import contextlib

from benchmarks.audience import Times, audience
from benchmarks.benchmark import Benchmark, Run, percentile
from benchmarks.peers import durable_streams
from benchmarks.sides import LAYBY, layby, sessions

READERS = 200
P50, P99, UNIT = "publish → each of 200 readers, p50", "publish → each of 200 readers, p99", "ms"
PEER = "Durable Streams, memory"


async def measure(run: Run) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sides = {LAYBY: await _layby(run, stack), **await _peer(run, stack)}
        for number in range(run.pick(quick=3, full=9)):
            run.tell(f"round {number + 1}")
            for name, times in sides.items():
                taken = await times(run.pick(quick=20, full=50))
                run.add(P50, name, percentile(taken, 50), UNIT, "less")
                run.add(P99, name, percentile(taken, 99), UNIT, "less")
    run.at_most(P50, LAYBY, PEER, 0.5)
    run.at_most(P99, LAYBY, PEER, 0.5)


async def _layby(run: Run, stack: contextlib.AsyncExitStack) -> Times:
    server = stack.enter_context(layby(run.folder))
    [path] = await sessions(server, 1)
    return await audience(stack, (server.port, f"{path}/events"), (server.port, f"{path}/stream?from=now"), READERS)


async def _peer(run: Run, stack: contextlib.AsyncExitStack) -> dict[str, Times]:
    if reason := durable_streams.missing():
        run.leave_out(PEER, reason)
        return {}
    peer = stack.enter_context(durable_streams.running("memory"))
    path = peer.create("fanout")
    return {PEER: await audience(stack, (peer.port, path), (peer.port, durable_streams.sse(path)), READERS)}


BENCHMARK = Benchmark("fanout", __doc__ or "", measure)
