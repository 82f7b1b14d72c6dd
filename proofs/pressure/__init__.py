"""More than Layby can take, of everything: it says no in good order, holds a bounded amount, and recovers at once.

Load beyond what may wait; an engine without memory, and one without disk; a thousand tails that come and go; readers
who do not read, and writers who send a byte a second; ten thousand sessions that append at the same moment. Judged by
the log (what was acknowledged is there, what was refused is not), by the resident memory and the open descriptors of
the server, and by the connections that its engine counts. Latencies are figures and no judgement.
"""

from __future__ import annotations

from proofs.engines import Engine
from proofs.pressure import full, load, readers
from proofs.pressure.stage import Stage, prepare
from proofs.proof import Mutation, Patch, Proof, Run
from proofs.servers import Server, running

PARTS = {
    "overload": load.overload,
    "tails": readers.tails,
    "slow": readers.slow,
    "drip": readers.drip,
    "many": load.many,
    "memory": full.memory,
    "disk": full.disk,
}


async def prove(run: Run) -> None:
    prepare()
    with Engine(run.folder / "engine") as engine:
        server = Server(run.folder / "server", redis_url=engine.url)
        with running(server):
            await _prove(run, Stage(run, engine, server))


async def _prove(run: Run, stage: Stage) -> None:
    for part in run.parts(PARTS):
        await part(stage)
    stage.server.verify(run)


PROOF = Proof(
    "pressure",
    "Beyond what it can take Layby refuses in good order, keeps what it acknowledged, stays bounded, and recovers.",
    prove,
    alone=True,
    mutations=(
        Mutation(
            "lets-any-number-wait",
            (Patch("eventstore/commit/writer.py", "if self.waiting >= self._max_pending:", "if False:"),),
            {"part": "overload"},
        ),
        Mutation(
            "no-word-when-to-retry",
            (Patch("api/http/problems.py", '{"Retry-After": str(error.retry_after_s)}', "{}"),),
            {"part": "overload"},
        ),
        Mutation(
            "writes-without-asking-for-memory",
            (Patch("eventstore/redis_client/scripts.py", 'f"#!lua{flags}\\n{self.text}"', "self.text"),),
            {"part": "memory"},
        ),
        Mutation(
            "a-tail-outlives-its-reader",
            (Patch("api/streaming/open_responses.py", "return _end(scope)", "return None"),),
            {"part": "tails"},
        ),
        Mutation(
            "reads-on-for-a-reader-who-does-not",
            (
                Patch(
                    "api/streaming/open_responses.py",
                    "await outlet.write(piece)\n",
                    "asyncio.ensure_future(outlet.write(piece))\n",
                ),
            ),
            {"part": "slow"},
        ),
    ),
    limit_s={"quick": 300.0, "full": 3_600.0},
)
