"""How soon does one reader have an event, on the same server and on another, beside a bare hop through the engine?"""

from __future__ import annotations

import contextlib

from benchmarks.audience import Times, audience
from benchmarks.benchmark import Benchmark, Run, percentile
from benchmarks.limits.hop import hop
from benchmarks.sides import layby, sessions
from proofs.engines import Engine

P50, P99, UNIT = "publish → one reader, p50", "publish → one reader, p99", "ms"
SAME, OTHER = "Layby, the same server", "Layby, another server"
BARE, BARE_P50 = "bare XADD → XREAD", "bare XADD → XREAD, its p50"


async def measure(run: Run) -> None:
    async with contextlib.AsyncExitStack() as stack:
        engine = stack.enter_context(Engine(run.folder / "engine"))
        sides = await _layby(run, stack, engine)
        sides[BARE] = (await stack.enter_async_context(hop(engine.url))).times
        for number in range(run.pick(quick=3, full=9)):
            run.tell(f"round {number + 1}")
            for name, times in sides.items():
                taken = await times(run.pick(quick=100, full=300))
                run.add(P50, name, percentile(taken, 50), UNIT, "less")
                run.add(P99, name, percentile(taken, 99), UNIT, "less")
            run.add(P99, BARE_P50, run.series[P50, BARE].values[-1], UNIT, "less")
    run.note("The p99 of a hop through Layby is judged by the p50 of the bare hop, which is stricter than by its p99.")
    for ours in (SAME, OTHER):
        run.at_most(P50, ours, BARE, 3)
        run.at_most(P99, ours, BARE_P50, 10)


async def _layby(run: Run, stack: contextlib.AsyncExitStack, engine: Engine) -> dict[str, Times]:
    """Two servers that share the engine; all is published to the first."""
    one, two = (stack.enter_context(layby(run.folder / name, redis_url=engine.url)) for name in ("one", "two"))
    sides = dict[str, Times]()
    for name, server in ((SAME, one), (OTHER, two)):
        [path] = await sessions(one, 1)
        follow = (server.port, f"{path}/stream?from=now")
        sides[name] = await audience(stack, (one.port, f"{path}/events"), follow)
    return sides


BENCHMARK = Benchmark("hop", __doc__ or "", measure)
