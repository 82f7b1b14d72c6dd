"""Many clients create, append, ask, decide, claim, record, read and let expire at once, over two servers and one
engine, and write down when each request was sent, when it was answered, and what it heard.

Then everything is judged. The history of each call must be linearizable: there is an order of its requests, each at one
moment between its sending and its answer, in which a register with the moves of the protocol gives exactly these
answers; its deadline passes at one moment of the engine's clock, and reads count as much as decisions. Each log must
agree with what clients were told, and when: dense numbers, what was acknowledged once and in its place, what was
refused not at all, nothing before what was answered before it was sent, one outcome a call, on the right side of its
deadline by the time of the engine's own commit. And followers, who cut their streams and go on at the other server,
must have seen exactly the log.

A request whose connection was cut may have taken effect at any time since, or never; one that was repeated with its
Idempotency-Key took effect once. Once a scene the engine hangs until a deadline has passed that a decision on its way
to it was meant to meet.
"""

from __future__ import annotations

import contextlib
import random

from proofs.engines import Engine
from proofs.histories.scene import Plan, Stage
from proofs.proof import Mutation, Patch, Proof, Run
from proofs.servers import Server, running

SCENES = 50
"""In the full size: 10,000 races and 1,000,000 events in all. Each has sessions of its own."""
QUICK = Plan(sessions=5, races=20, lives=10, events=1_000)
FULL = Plan(sessions=8, races=25, lives=2, events=2_500)
PARTS = {
    "": QUICK,
    "appends": Plan(sessions=3, races=0, lives=0, events=600, publishers=4, creators=1),
    "races": Plan(sessions=4, races=8, lives=0, events=50, at_once=8, creators=1, stalls=3),
    "lives": Plan(sessions=4, races=0, lives=10, events=50, creators=1),
}
"""What a broken build is looked at with."""


async def prove(run: Run) -> None:
    with Engine(run.folder / "engine") as engine:
        servers = [Server(run.folder / name, redis_url=engine.url) for name in ("first", "second")]
        with running(*servers):
            stage = Stage(servers, engine, random.Random(run.seed))
            with contextlib.closing(stage.exchange):
                await _scenes(run, stage)


async def _scenes(run: Run, stage: Stage) -> None:
    scenes = run.pick(quick=1, full=SCENES, mutated=2)
    plan = run.pick(quick=QUICK, full=FULL, mutated=PARTS[run.option("part")])
    for number in range(scenes):
        await stage.play(f"scene-{number}", plan)
        tally = stage.judge.tally
        run.progress(
            f"scene {number + 1} of {scenes}: {tally.calls:,} calls, {tally.appended:,} events, as they should"
        )
    _figures(run, stage)


def _figures(run: Run, stage: Stage) -> None:
    tally, exchange, aim = stage.judge.tally, stage.exchange, stage.aim
    races = f"{aim.decided + aim.expired:,} ({aim.decided:,} decided, {aim.expired:,} expired)"
    run.figure("requests", exchange.requests)
    run.figure("calls linearizable", tally.calls)
    run.figure("operations in their histories", tally.operations)
    run.figure("races against a deadline", races)
    run.figure("decisions under way as it passed", tally.at_the_deadline)
    run.figure("events acknowledged", f"{tally.appended:,} in {tally.appends:,} requests")
    run.figure("events in the logs", tally.logged)
    run.figure("events to followers", tally.followed)
    run.figure("connections cut", exchange.cut)
    run.figure("outcomes that nobody knows", exchange.unknown)
    run.figure("engine's clock known to", f"{tally.uncertainty_ns / 1e6:.2f} ms")


_FIRST_FREE = "local first, events = tonumber(head[2] or 0) + 1"
_TOO_EARLY = "lane.resolve(batch, self._commits.durability)\n        reply, reached = await self._commits.run(commit"

PROOF = Proof(
    "histories",
    "What many clients hear at once, over several servers, can be told in one order, and each log agrees with it.",
    prove,
    mutations=(
        Mutation(
            "revision-not-compared",
            (
                Patch("eventstore/lua/commit.lua", "if (head[1] or '') ~= ARGV[1] then", "if false then"),
                Patch("eventstore/lua/commit.lua", "local first, events = tonumber(ARGV[13])", _FIRST_FREE),
            ),
            {"part": "appends"},
        ),
        Mutation(
            "deadline-not-compared",
            (Patch("eventstore/lua/commit.lua", "if ARGV[4] ~= '' and now >=", "if false and now >="),),
            {"part": "races"},
        ),
        Mutation(
            "retry-not-compared",
            (Patch("eventstore/lua/commit.lua", "if until_ms and tonumber(until_ms) > now then", "if false then"),),
            {"part": "appends"},
        ),
        Mutation(
            "acknowledged-before-the-commit",
            (Patch("eventstore/commit/writer.py", "reply, reached = await self._commits.run(commit", _TOO_EARLY),),
            {"part": "lives"},
        ),
        Mutation(
            "old-attempt-not-fenced",
            (
                Patch(
                    "eventstore/domain/rules/executions.py",
                    "if attempt != execution.valid:",
                    "if attempt > execution.attempt:",
                ),
            ),
            {"part": "lives"},
        ),
        Mutation(
            "snapshot-as-it-is-stored",
            (
                Patch(
                    "projections/queries/snapshots.py",
                    "while stored.view.seq < last_seq:",
                    "while not stored.view.seq:",
                ),
            ),
            {"part": "lives"},
        ),
    ),
)
