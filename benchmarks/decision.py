"""How soon does whoever waits have the decision, beside Restate, DBOS and a bare hop? And 50 decisions on one call?"""

from __future__ import annotations

import contextlib
import statistics

from benchmarks.audience import Times
from benchmarks.benchmark import Benchmark, Run, percentile
from benchmarks.deciding import Deciding
from benchmarks.limits.hop import hop
from benchmarks.peers import dbos, restate
from benchmarks.sides import LAYBY, layby
from proofs.engines import Engine

P50, P99, UNIT = "decision → who waits for it, p50", "decision → who waits for it, p99", "ms"
TAIL, BARE = "Layby, by a tail", "bare XADD → XREAD, its p50"
HANDLER, CALLER, DBOS = "Restate, its handler", "Restate, who called the handler", "DBOS"
RACE, ALONE, AT_ONCE = "decisions on one call, all answered", "Layby, one", "Layby, 50 at once"
DECIDERS = 50


async def measure(run: Run) -> None:
    async with contextlib.AsyncExitStack() as stack:
        engine = stack.enter_context(Engine(run.folder / "engine"))
        server = stack.enter_context(layby(run.folder / "layby", redis_url=engine.url))
        deciding = await Deciding.on(stack, server, DECIDERS)
        bare = await stack.enter_async_context(hop(engine.url))
        sides: dict[str, Times] = {LAYBY: deciding.waited, TAIL: deciding.followed, **_peers(run, stack)}
        for number in range(run.pick(quick=3, full=7)):
            run.tell(f"round {number + 1}")
            count = run.pick(quick=50, full=200)
            for name, times in sides.items():
                _add(run, name, await times(count))
            run.add(P99, BARE, percentile(await bare.times(count), 50), UNIT, "less")
            await _race(run, deciding, run.pick(quick=5, full=15))
    for peer in (HANDLER, CALLER, DBOS):
        run.at_most(P50, LAYBY, peer, 1)
        run.at_most(P99, LAYBY, peer, 1)
    run.at_most(P99, LAYBY, BARE, 10)
    run.at_most(RACE, AT_ONCE, ALONE, 5)


def _add(run: Run, name: str, taken: list[float]) -> None:
    run.add(P50, name, percentile(taken, 50), UNIT, "less")
    run.add(P99, name, percentile(taken, 99), UNIT, "less")


async def _race(run: Run, deciding: Deciding, times: int) -> None:
    """One alone and all at once, in turn; a round's value is the median of its times."""
    pairs = [(await deciding.alone(), await deciding.at_once()) for _ in range(times)]
    run.add(RACE, ALONE, statistics.median(alone for alone, _ in pairs), UNIT, "less")
    run.add(RACE, AT_ONCE, statistics.median(many for _, many in pairs), UNIT, "less")


def _peers(run: Run, stack: contextlib.AsyncExitStack) -> dict[str, Times]:
    sides = dict[str, Times]()
    if reason := restate.missing():
        run.leave_out("Restate", reason)
    else:
        sides |= _restate(stack.enter_context(restate.running()))
    if reason := dbos.missing():
        run.leave_out(DBOS, reason)
    else:
        sides[DBOS] = stack.enter_context(dbos.running()).decided_after
    return sides


def _restate(peer: restate.Restate) -> dict[str, Times]:
    async def handler(count: int) -> list[float]:
        return [one.handler_ms for one in await peer.rounds(count)]

    return {HANDLER: handler, CALLER: peer.decided_after}


BENCHMARK = Benchmark("decision", __doc__ or "", measure)
