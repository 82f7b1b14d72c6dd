"""The service against a model in plain Python: whatever is asked of it, and in whatever order.

Hypothesis chooses requests to a few sessions: events and turns and steps in both modes, several calls at once, every
decision, claims, leases and deadlines that pass, messages with old tokens, duplicates, retries under a key, deletions,
restarts and SIGKILL in between. After each request everything that can be read is compared with the model, which is
written from the protocol and shares no code with the service: the events, the snapshot, points of its past, lists and
inbox. At the end of each run of requests every point of every past is. The requests are the same over HTTP and in
process. What differs is shrunk to the shortest run of requests that shows it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from proofs.engines import Engine
from proofs.model.drivers import PARTITIONS, Driver, InProcess, OverHttp
from proofs.model.running import Size, examples
from proofs.proof import Mutation, Patch, Proof, Run
from proofs.servers import Server

FULL_S = 90.0
"""For each of the two ways."""


def prove(run: Run) -> None:
    wanted = run.option("driver")
    if wanted != "http":
        with Engine(run.folder / "engine") as engine:
            size = Size(run.pick(quick=5, full=20, mutated=60), run.pick(quick=30, full=50, mutated=20), restarts=1)
            _compare(run, "in process", InProcess(engine), size)
    if wanted != "in process":
        server = Server(run.folder / "server", settings={"partitions": str(PARTITIONS)})
        size = Size(
            run.pick(quick=2, full=20, mutated=60), run.pick(quick=30, full=50), restarts=run.pick(quick=1, full=2)
        )
        _compare(run, "over HTTP", OverHttp(server.start()), size)


def _compare(run: Run, how: str, driver: Driver, size: Size) -> None:
    """One round of examples, or at full size as many as the time allows: each follows from the seed and its number."""
    tally, rounds, began = Counter[str](), 0, time.monotonic()
    size = replace(size, mostly=run.option("mostly"))
    seconds = run.pick(quick=0.0, full=FULL_S)
    try:
        while not rounds or time.monotonic() - began < seconds:
            rounds += 1
            examples(driver, size, 1_000 * run.seed + rounds, tally, shrink=run.mutation is None)
            run.progress(
                f"{how}: {tally['steps']:,} requests, {tally['events']:,} events, {tally['points']:,} past points"
            )
    finally:
        driver.close()
    run.figure(
        how,
        f"{tally['steps']:,} requests ({tally['refusals']:,} refused, {tally['retries']:,} retries,"
        f" {driver.restarts} restarts), {tally['reads']:,} answers compared ({tally['points']:,} of the past)",
    )


def _mutation(name: str, path: str, old: str, new: str, mostly: str) -> Mutation:
    return Mutation(name, (Patch(path, old, new),), {"driver": "in process", "mostly": mostly})


PROOF = Proof(
    "model",
    "Whatever is asked, over HTTP or in process: each answer, event, list and past point is as a plain model says.",
    prove,
    mutations=(
        _mutation(
            "failed-turn-keeps-its-calls",
            "eventstore/domain/rules/publishing.py",
            'if event.type != "turn.completed":',
            'if event.type == "turn.cancelled":',
            "turn",
        ),
        _mutation(
            "old-token-is-taken",
            "eventstore/domain/decider.py",
            "if command.continuation_token != session.token:",
            "if not command.continuation_token:",
            "message",
        ),
        _mutation(
            "anybody's-decision-is-a-duplicate",
            "eventstore/domain/rules/decisions.py",
            "        and _same_actor(call, by)\n",
            "",
            "turn,decide_what_waits,decide_again",
        ),
        _mutation(
            "past-is-one-event-ahead",
            "projections/queries/snapshots.py",
            "page.lines[: at - seq]",
            "page.lines[: at - seq + 1]",
            "publish",
        ),
        _mutation(
            "key-is-not-bound-to-its-body",
            "eventstore/commit/session_queue.py",
            'if item.retry and kept["fingerprint"] != item.retry.fingerprint:',
            "if item.retry and not kept:",
            "message,retry",
        ),
        _mutation(
            "list-by-creation",
            "projections/fold/index_writes.py",
            'writes.add("ZADD", key, session.time, session.session_id)',
            'writes.add("ZADD", key, session.created_at, session.session_id)',
            "publish",
        ),
    ),
    limit_s={"quick": 300.0, "full": 3_600.0},
)
