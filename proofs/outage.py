"""A server outlives its engine: SCRIPT FLUSH, a restart, and a long outage, with requests all the while.

While the engine is away every request is answered, with 503 and Retry-After; when it is back, the same server process
goes on, with every acknowledged event.
"""

from __future__ import annotations

import asyncio
import time

from proofs.client import Answer, Client, page_through
from proofs.engines import Engine
from proofs.proof import Breach, Mutation, Patch, Proof, Run
from proofs.servers import Server, running

PATH = "/v1/sessions/outage/events"


async def prove(run: Run) -> None:
    with Engine(run.folder / "engine") as engine:
        server = Server(run.folder / "server", redis_url=engine.url)
        with running(server):
            async with server.client(timeout_s=run.pick(quick=30.0, full=30.0, mutated=6.0)) as client:
                await _prove(run, engine, client)


async def _prove(run: Run, engine: Engine, client: Client) -> None:
    created = await client.request("POST", "/v1/sessions", {"session_id": "outage"})
    run.check(created.status == 201, f"no session: {created}")
    await _until_appended(run, client, 1)
    engine.client.script_flush()
    run.figure("after SCRIPT FLUSH appended in", f"{await _until_appended(run, client, 2):.2f} s")
    engine.kill()
    engine.start()
    run.figure("after a restart of the engine in", f"{await _until_appended(run, client, 3):.2f} s")
    engine.kill()
    await _refused_while_away(run, client, run.pick(quick=4.0, full=60.0))
    engine.start()
    run.figure("after the outage in", f"{await _until_appended(run, client, 4):.2f} s")
    events = [event["data"]["n"] for event in await page_through(client, "outage") if event["type"] == "outage.event"]
    run.check(events == [1, 2, 3, 4], f"acknowledged were 1, 2, 3, 4; stored are {events}")


async def _refused_while_away(run: Run, client: Client, seconds: float) -> None:
    refused, slowest, stop = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < stop:
        began = time.monotonic()
        try:
            answer = await _append(client, 4)
        except TimeoutError:
            raise Breach(f"while the engine was away a request heard nothing for {client.timeout_s:.0f} s") from None
        slowest = max(slowest, time.monotonic() - began)
        run.check(answer.problem == "store-unavailable", f"while the engine was away a request heard {answer}")
        run.check("retry-after" in answer.headers, f"503 without Retry-After: {answer.headers}")
        refused += 1
        if refused % 10 == 0:
            run.progress(f"engine away: {refused} requests refused")
        await asyncio.sleep(0.2)
    run.figure(f"refused with 503 in {seconds:.0f} s", refused)
    run.figure("slowest refusal", f"{slowest:.2f} s")


async def _append(client: Client, number: int) -> Answer:
    body = {"type": "outage.event", "data": {"n": number}}
    return await client.request("POST", PATH, body, headers={"Idempotency-Key": f"event-{number}"})


async def _until_appended(run: Run, client: Client, number: int, limit_s: float = 20.0) -> float:
    """Repeat until it is acknowledged; how long that took."""
    began = time.monotonic()
    while (answer := await _append(client, number)).status != 201:
        run.check(time.monotonic() - began < limit_s, f"not appended within {limit_s:.0f} s: {answer}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


PROOF = Proof(
    "outage",
    "An engine that goes away, comes back, or forgets its scripts costs 503s with Retry-After, and nothing else.",
    prove,
    mutations=(
        Mutation(
            "no-retry-after",
            (Patch("api/http/problems.py", '{"Retry-After": str(error.retry_after_s)}', "{}"),),
        ),
        Mutation(
            "waits-for-an-engine-for-ever",
            (Patch("eventstore/support/timing.py", "retry_s: float = 2.0", "retry_s: float = 2e6"),),
        ),
    ),
)
