"""Redis Cluster: three primaries with a replica each, and two Layby servers.

First, under load, what an operator does and what happens to them: planned failovers, slots that move while sessions in
them are written, primaries that are killed. Nothing that was acknowledged at `replicated` may be missing. Then what no
acknowledgement at `memory` survives: a replica hangs, much is written, the primary is killed, the replica is promoted.
Events are gone then, and Layby must say so: to whoever comes with a cursor, to `layby verify` and in `/readyz`; and
nothing that is read afterwards may mix what was with what is.

With size full the conformance suite runs against the cluster too, but for its tests of keys: all its servers share one
store here, and the first key would close the door for every other test.
"""

from __future__ import annotations

import asyncio
import time

from proofs import builds, losing, suites
from proofs.engines import Cluster, Engine
from proofs.load import Load
from proofs.proof import Mutation, Patch, Proof, Run
from proofs.servers import Server, running

PARTITIONS = 8
"""Few, so that a few sessions are in all of them."""


async def prove(run: Run) -> None:
    if run.option("part") != "losing":
        with await asyncio.to_thread(_cluster, run, "moving") as cluster:
            if run.size == "full" and not run.mutation:
                await asyncio.to_thread(_conformance, run, cluster)
            await _keeps_what_it_acknowledged(run, cluster)
    if run.option("part") != "moving":
        with await asyncio.to_thread(_cluster, run, "losing") as cluster:
            await losing.prove(run, cluster, _servers(run, cluster, "losing", "memory"))


def _cluster(run: Run, name: str) -> Cluster:
    run.progress("six engines form a cluster")
    return Cluster(run.folder / f"engines-{name}", primaries=3, replicas=1)


def _servers(run: Run, cluster: Cluster, name: str, durability: str) -> list[Server]:
    settings = {"durability": durability, "partitions": str(PARTITIONS)}
    return [Server(run.folder / f"{name}-{n}", redis_url=cluster.url, settings=settings) for n in (1, 2)]


async def _keeps_what_it_acknowledged(run: Run, cluster: Cluster) -> None:
    servers = _servers(run, cluster, "moving", "replicated:1")
    with running(*servers):
        load = Load([server.port for server in servers], run.pick(quick=12, full=48), "cluster", pause_s=0.01)
        moved = killed = 0
        stalls = list[float]()
        async with load:
            await load.claims_no_replica(run, [node for node in cluster.nodes if node not in _primaries(cluster)])
            for number in range(run.pick(quick=1, full=5)):
                moved += await _move_slots(run, cluster, load, run.pick(quick=2, full=PARTITIONS))
                await _planned_failover(run, cluster, load, number)
                stalls.append(await _kill_primary(run, cluster, load, number))
                killed += 1
        await load.check(run, "replicated", servers[0])
    run.figure("live slots moved", moved)
    run.figure("planned failovers", killed)
    run.figure("primaries killed", killed)
    run.figure("all appending again after a kill in", " / ".join(f"{seconds:.1f} s" for seconds in stalls))
    run.figure("longest stall of a writer", f"{load.longest_stall():.1f} s")


def _slot(cluster: Cluster, partition: int) -> int:
    return cluster.slot(f"{{p{partition % PARTITIONS:02}}}")


async def _move_slots(run: Run, cluster: Cluster, load: Load, count: int) -> int:
    """Each to another primary, while sessions in it are written."""
    for partition in range(count):
        slot = _slot(cluster, partition)
        owner = cluster.owner(slot)
        target = next(node for node in _primaries(cluster) if node is not owner)
        await asyncio.to_thread(cluster.move_slot, slot, target)
        await load.flowing(run.pick(quick=60.0, full=60.0, mutated=10.0))
        run.progress(f"slot {slot} moved under load; {load.acknowledged:,} acknowledged")
    return count


def _primaries(cluster: Cluster) -> list[Engine]:
    return list(
        {cluster.owner(_slot(cluster, n)).port: cluster.owner(_slot(cluster, n)) for n in range(PARTITIONS)}.values()
    )


async def _planned_failover(run: Run, cluster: Cluster, load: Load, number: int) -> None:
    primary = cluster.owner(_slot(cluster, number))
    replica = await asyncio.to_thread(cluster.replica_of, primary)
    await asyncio.to_thread(cluster.promote, replica)
    await load.flowing()
    run.progress(f"a planned failover; {load.acknowledged:,} acknowledged")


async def _kill_primary(run: Run, cluster: Cluster, load: Load, number: int) -> float:
    """How long until every writer was acknowledged again."""
    slot, began = _slot(cluster, number + 1), time.monotonic()
    killed = await asyncio.to_thread(cluster.kill_primary, slot)
    await asyncio.to_thread(cluster.taken_over, slot, killed)
    await load.flowing(run.pick(quick=60.0, full=60.0, mutated=15.0))
    took = time.monotonic() - began
    run.progress(f"a primary was killed; {load.acknowledged:,} acknowledged, again after {took:.1f} s")
    await asyncio.to_thread(killed.start)
    await asyncio.to_thread(cluster.settle)
    return took


def _conformance(run: Run, cluster: Cluster) -> None:
    passed = suites.conformance(
        run, "the cluster", builds.ROOT, without=["test_keys.py"], settings={"LAYBY_REDIS_URL": cluster.url}
    )
    run.figure("conformance suite", passed or "not beside the checkout, not run")


PROOF = Proof(
    "cluster",
    "On Redis Cluster nothing acknowledged at `replicated` is lost over failovers, moving slots and killed primaries;"
    " where `memory` lost events, Layby says so and mixes nothing.",
    prove,
    mutations=(
        Mutation(
            "a-slot-that-moved-is-not-followed",
            (
                Patch(
                    "eventstore/redis_client/retries.py",
                    "isinstance(reply, redis_errors.AskError | redis_errors.TryAgainError)",
                    "isinstance(reply, redis_errors.TryAgainError)",
                ),
            ),
            {"part": "moving"},
        ),
        Mutation(
            "claims-a-replica-that-did-not-answer",
            (
                Patch(
                    "eventstore/redis_client/durability.py",
                    "and local and replicas >= self._wanted.replicas:",
                    "and local:",
                ),
            ),
            {"part": "moving"},
        ),
        Mutation(
            "a-cursor-in-what-is-lost-goes-on",
            (
                Patch(
                    "eventstore/lua/read_feed.lua", "return {'other', before and before[1] or '0-0'}", "after = '0-0'"
                ),
            ),
            {"part": "losing"},
        ),
        Mutation(
            "a-tail-goes-on-with-another-past",
            (Patch("eventstore/log/tail.py", "if not hash_ or page.deleted", "if True or page.deleted"),),
            {"part": "losing"},
        ),
    ),
    limit_s={"quick": 180.0, "full": 1500.0},
)
