"""Deadlines take effect by themselves: at their time, once each, whatever falls over meanwhile.

Many calls wait; some fall due in a trickle, then thousands within one second: undisturbed, with the engine and the
server killed in the middle, and with two servers that sweep. Judged by the log: each call that was due has exactly one
`input.expired`, none before its deadline, and no other call has one; the hash chains hold; the inbox counts what is
left. How late an expiry is, is a figure and no judgement.
"""

from __future__ import annotations

from proofs.engines import Engine
from proofs.expiry import parts
from proofs.expiry.scene import Expired, Scene
from proofs.proof import Mutation, Patch, Proof, Run, percentiles
from proofs.servers import Server, running

PARTS = {"lag": parts.lag, "mass": parts.mass, "kill": parts.kill, "pair": parts.pair}


async def prove(run: Run) -> None:
    with Engine(run.folder / "engine") as engine:
        server = Server(run.folder / "server", redis_url=engine.url)
        with running(server):
            await _prove(run, Scene(run, engine, server))


async def _prove(run: Run, scene: Scene) -> None:
    await scene.fill()
    for part in run.parts(PARTS):
        await part(scene)
    found = await scene.judge()
    await scene.judge_inbox()
    _figures(run, found)
    scene.server.verify(run)


def _figures(run: Run, found: dict[str, Expired]) -> None:
    """How late the expiries were, by the time with which they are recorded."""
    for part, what in (("lag", f"{parts.DUE_PER_S} due each second"), ("mass", "due in one second")):
        # The last round alone: one that was asked too slowly is asked again (`Scene.ask`), and expires all the same.
        last = max((name.partition("-")[0] for name in found if name.startswith(part)), default="")
        these = [one for name, one in found.items() if name.startswith(f"{last}-")]
        if not these:
            continue
        count = f"{len(these):,} {what}" if part == "mass" else what
        run.figure(f"{count}: lag p50/p99/max", percentiles(one.recorded - one.deadline for one in these))
        if part == "mass":
            seconds = (max(one.recorded for one in these) - min(one.deadline for one in these)) / 1000
            run.figure("all of them expired in", f"{seconds:.1f} s")
    run.figure("expired, once each", len(found))


_COMMIT = "eventstore/lua/commit.lua"

PROOF = Proof(
    "expiry",
    "A deadline takes effect by itself and once, among any number of open calls, whatever falls over meanwhile.",
    prove,
    alone=True,
    mutations=(
        Mutation(
            "sweeps-without-compare",
            (
                Patch(_COMMIT, "if (head[1] or '') ~= ARGV[1] then", "if false then"),
                Patch(_COMMIT, "local first, events = tonumber(ARGV[13])", "local first, events = (head[2] or 0) + 1"),
                Patch(_COMMIT, "if (record and redis.sha1hex(record) or '') ~= ARGV[n + 2]", "if false"),
            ),
            {"part": "pair"},
        ),
        Mutation(
            "an-expired-call-goes-on-waiting",
            (Patch("eventstore/domain/session.py", '        "input.expired": _call_closed,\n', ""),),
            {"part": "mass"},
        ),
        Mutation(
            "no-look-at-the-index",
            (
                Patch(
                    "eventstore/commit/deadline_sweeper.py",
                    "self._scan_at: float = 0.0",
                    "self._scan_at: float = math.inf",
                ),
                Patch(
                    "eventstore/commit/deadline_sweeper.py",
                    "self._scan_at, self._goes_on = 0.0, False",
                    "self._goes_on = False",
                ),
            ),
            {"part": "kill"},
        ),
        Mutation(
            "ends-after-the-first-slice",
            (
                Patch("eventstore/commit/deadline_sweeper.py", "<= now and len(due) < SLICE:", "<= now:"),
                Patch(
                    "eventstore/commit/deadline_sweeper.py",
                    "== (deadline, at):\n",
                    "== (deadline, at) and len(due) < SLICE:\n",
                ),
            ),
            {"part": "kill"},
        ),
        Mutation(
            "a-little-early",
            (Patch("eventstore/domain/rules/expiry.py", "if deadline <= now)", "if deadline <= now + 500)"),),
            {"part": "mass"},
        ),
    ),
    limit_s={"quick": 300.0, "full": 3_600.0},
)
