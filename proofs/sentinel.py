"""A failover by Sentinels, under load: what was acknowledged at `replicated` is there, and tails go on."""

from __future__ import annotations

import asyncio
import time

from proofs.client import Client, page_through
from proofs.engines import Engine, Sentinels
from proofs.load import Follower, Load
from proofs.proof import Mutation, Patch, Proof, Run
from proofs.servers import Server, running


async def prove(run: Run) -> None:
    group = Sentinels(run.folder / "engines", replicas=2)
    try:
        await asyncio.to_thread(group.start)
        settings = {"durability": "replicated:1"}
        servers = [Server(run.folder / f"server-{n}", redis_url=group.url, settings=settings) for n in (1, 2)]
        with running(*servers):
            await _fail_over(run, group, servers)
    finally:
        group.close()


async def _fail_over(run: Run, group: Sentinels, servers: list[Server]) -> None:
    load = Load([server.port for server in servers], run.pick(quick=8, full=32), "sentinel", pause_s=0.01)
    failovers = run.pick(quick=1, full=3)
    async with load:
        followers = [Follower(writer.session_id, servers[n % 2].port) for n, writer in enumerate(load.writers[:6])]
        tails = [asyncio.create_task(follower.run()) for follower in followers]
        await load.claims_no_replica(run, [engine for engine in group.engines if engine is not group.master])
        took = list[float]()
        for number in range(failovers):
            killed, seconds = await _kill_master(run, group, load)
            took.append(seconds)
            if number + 1 < failovers:
                await asyncio.to_thread(group.bring_back, killed)
    await load.check(run, "replicated", servers[0])
    await _tails_saw_everything(run, load, followers, servers[0])
    for tail in tails:
        tail.cancel()
    run.figure("failovers", failovers)
    run.figure("appending again after", " / ".join(f"{seconds:.1f} s" for seconds in took))


async def _kill_master(run: Run, group: Sentinels, load: Load) -> tuple[Engine, float]:
    """Whom, and how long until every writer was acknowledged again."""
    await asyncio.sleep(run.pick(quick=0.5, full=5.0))
    run.progress(f"{load.acknowledged:,} acknowledged; the master is killed")
    began = time.monotonic()
    killed = await asyncio.to_thread(group.kill_master)
    await asyncio.to_thread(group.taken_over, killed)
    await load.flowing(run.pick(quick=60.0, full=60.0, mutated=15.0))
    return killed, time.monotonic() - began


async def _tails_saw_everything(run: Run, load: Load, followers: list[Follower], server: Server) -> None:
    """Each tail, taken up where it was cut, has seen the log, or soon has."""
    give_up, taken_away = time.monotonic() + 30, 0
    writers = {writer.session_id: writer for writer in load.writers}
    async with Client(server.port) as client:
        for follower in followers:
            stored = await page_through(client, follower.session_id)
            while follower.position < len(stored) and time.monotonic() < give_up:
                await asyncio.sleep(0.05)
            acknowledged = writers[follower.session_id].acknowledged.values()
            kept = {seq for seq, durability in acknowledged if durability == "replicated"}
            taken_away += follower.check(run, stored, kept)
            run.check(
                follower.position >= len(stored),
                f"a tail of {follower.session_id} stands at {follower.position} of {len(stored)} events",
            )
    run.figure("tails cut and taken up again", sum(len(one.pieces) - 1 for one in followers))
    run.figure("shown to a tail, never acknowledged at replicated, and gone after a failover", taken_away)


PROOF = Proof(
    "sentinel",
    "A failover by Sentinels loses nothing that was acknowledged at `replicated`; tails go on or are cut and resume.",
    prove,
    mutations=(
        Mutation(
            "claims-a-replica-that-did-not-answer",
            (
                Patch(
                    "eventstore/redis_client/durability.py",
                    "and local and replicas >= self._wanted.replicas:",
                    "and local:",
                ),
            ),
        ),
        Mutation(
            "does-not-ask-sentinels-again",
            (
                Patch("eventstore/redis_client/topology.py", "LOOK_EVERY_S = 2.0", "LOOK_EVERY_S = 2e9"),
                Patch("eventstore/redis_client/sentinel.py", "if self.nodes != [node]:", "if not self.nodes:"),
            ),
        ),
    ),
    limit_s={"quick": 120.0, "full": 600.0},
)
