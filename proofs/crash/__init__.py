"""SIGKILL of server, engine, or both, under load, at random and at named points; and the append-only file, cut.

After each kill: what was acknowledged stands once, at its seq; logs are dense, chains intact; each call has one
outcome; a request that is repeated hears its first answer; snapshots and lists equal what the logs say; markers and
deadlines agree with the calls that wait, and what is overdue expires by itself. The product has no hook for this: the
named points are patched into a copy of it.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from proofs.crash import kills, points
from proofs.crash.broken import MUTATIONS
from proofs.crash.cuts import Cuts
from proofs.crash.kills import Kill, Kills
from proofs.crash.stage import Stage
from proofs.proof import Proof, Run

AT_MOST = 20
"""Kills in a run on a broken build, which ends at the first that shows the fault. Not each does: what is struck may be
a request that does nothing when it is repeated."""
OTHER_ENGINE = Path("/usr/bin/redis-server")


async def prove(run: Run) -> None:
    part = run.option("part")
    if part in ("", "kills"):
        await _kills(run)
    if part in ("", "cuts"):
        await _cuts(run)


async def _kills(run: Run) -> None:
    root = points.build(run.folder / "build")
    stages = {private: kills.stage(run, root, private=private) for private in (True, False)}
    planned, choose = _planned(run), random.Random(run.seed)
    used = {private: stages[private] for private in {kill.private for kill in planned}}
    try:
        for stage in used.values():
            await stage.start()
        on = {private: Kills(run, stage, run.pick(quick=3, full=6)) for private, stage in used.items()}
        for number, kill in enumerate(planned, 1):
            began = time.monotonic()
            await on[kill.private].one(kill)
            run.progress(f"kill {number} of {len(planned)}: {kill}, judged after {time.monotonic() - began:.1f} s")
        for judged in on.values():
            most = min(len(judged.journals), run.pick(quick=10, full=200))
            await judged.judge(choose.sample(judged.journals, most))
        if run.size == "full":
            await _verified(run, next(iter(used.values())))
        _figures(run, planned, [journal for one in on.values() for journal in one.journals])
    finally:
        for stage in stages.values():
            stage.end()


def _planned(run: Run) -> list[Kill]:
    choose = random.Random(run.seed)
    if wanted := run.option("kill"):
        private, victims, name = wanted.split()
        point = next((point for point in points.POINTS if point.name == name), None)
        return [Kill(private == "private", victims, point)] * AT_MOST
    every = kills.every_point()
    at_points = run.pick(quick=choose.sample(every, 3), full=every)
    planned = [*kills.at_random(run.pick(quick=3, full=100 - len(every)), choose), *at_points]
    choose.shuffle(planned)
    return planned


async def _verified(run: Run, stage: Stage) -> None:
    done = await asyncio.to_thread(stage.server.layby, "verify")
    run.check(done.returncode == 0, f"layby verify: {done.stdout}{done.stderr}")


def _figures(run: Run, planned: list[Kill], journals: list[kills.Journal]) -> None:
    run.figure("kills", len(planned))
    run.figure("of these at named points", sum(kill.point is not None for kill in planned))
    run.figure("sessions", len(journals))
    run.figure("requests acknowledged", sum(len(journal.done) for journal in journals))


async def _cuts(run: Run) -> None:
    choose = random.Random(run.seed)
    loads = starts = 0
    for number, binary in enumerate(_engines(run)):
        cuts = Cuts(run, run.folder / f"cuts-{number}", binary)
        await cuts.write()
        every = run.pick(quick=97, full=1 if binary is None else 97)
        await asyncio.to_thread(cuts.load_each, every, run.progress)
        await cuts.start_on(cuts.places(choose.sample, run.pick(quick=1, full=15)))
        loads, starts = loads + cuts.loads, starts + cuts.starts
    run.figure("append-only files cut and loaded", loads)
    run.figure("engines started on one", starts)


def _engines(run: Run) -> list[Path | None]:
    """Layby's own; at full size another as well, where it is installed."""
    more = run.size == "full" and not run.mutation and OTHER_ENGINE.exists()
    return [None, OTHER_ENGINE] if more else [None]


PROOF = Proof(
    "crash",
    "Nothing acknowledged is lost, nothing is half there, and nothing is there twice, whichever process is killed at"
    " whichever moment, and wherever the append-only file ends.",
    prove,
    mutations=MUTATIONS,
    limit_s={"quick": 300.0, "full": 3_600.0},
)
