"""Read models against the streams, whoever projects, and whatever becomes of those who do.

Projectors are killed before and after every write; two meet on one partition; some stop dead with a reading in hand
and go on much later; the feed is trimmed behind them; servers are stopped and killed under load while the models are
rebuilt; a log is damaged, so that one session cannot be projected. At the end of each, what is stored is byte for byte
what a rebuild makes of the streams, and what is told is what the reference fold of the model makes of them. There is
no point between applying and the checkpoint: one script does both. What is shown is that whenever a projector stops,
the checkpoint is never ahead of the models.
"""

from __future__ import annotations

import logging

from proofs.projections import alone, beside
from proofs.projections.comparing import Compared
from proofs.proof import Mutation, Patch, Proof, Run

SCENARIOS = {
    "killed": alone.killed,
    "meeting": alone.meeting,
    "zombies": alone.zombies,
    "meanwhile": alone.meanwhile,
    "trimmed": alone.trimmed,
    "servers": beside.servers,
}


def prove(run: Run) -> None:
    logging.getLogger("layby").setLevel(logging.CRITICAL)  # servers say what they must in logs of their own
    compared = Compared(run)
    for scenario in run.parts(SCENARIOS, "scenario"):
        scenario(run, compared)
    run.figure("sessions compared", compared.sessions)
    run.figure("keys of models", compared.keys)
    run.figure("answers", compared.answers)


def _mutation(name: str, path: str, old: str, new: str, scenario: str, part: str = "") -> Mutation:
    return Mutation(name, (Patch(path, old, new),), {"scenario": scenario, "part": part})


PROOF = Proof(
    "projections",
    "Read models end identical to a fold of the streams, whoever projects and whatever becomes of those who do.",
    prove,
    mutations=(
        _mutation(
            "checkpoint-not-compared",
            "projections/lua/apply_projection.lua",
            "if (checkpoint or '') ~= ARGV[3] then return {'moved'} end\n",
            "",
            "zombies",
        ),
        _mutation(
            "views-not-compared",
            "projections/lua/apply_projection.lua",
            "if (redis.call('HGET', KEYS[tonumber(ARGV[n])], 'seq') or '') ~= ARGV[n + 1] then",
            "if false then",
            "meeting",
        ),
        _mutation(
            "trimmed-feed-not-noticed",
            "projections/lua/read_unprojected.lua",
            "if #redis.call('XRANGE', KEYS[3], checkpoint, checkpoint) == 0 then",
            "if false then",
            "trimmed",
        ),
        _mutation(
            "lists-do-not-catch-up",
            "projections/queries/index_pages.py",
            "late = [n for n in asked if due[n] or (",
            "late = [n for n in asked if due[n] or False and (",
            "meanwhile",
        ),
        _mutation(
            "rebuild-skips-what-came-meanwhile",
            "projections/projector/rebuild.py",
            "await models.catch_up()  # so that the feed is never far ahead, however long this takes",
            'await self._connection.command("SET", layout.checkpoint, await self._feed_end(layout.partition))',
            "meanwhile",
        ),
        _mutation(
            "one-damaged-log-stops-all",
            "projections/fold/session_fold.py",
            "return Folded(target, seq, broken=error)",
            "raise",
            "servers",
            "throws",
        ),
    ),
    limit_s={"quick": 300.0, "full": 3_600.0},
)
