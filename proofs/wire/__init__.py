"""A network that loses, cuts, delays, splits and goes silent: between clients and server, and server and engine.

Each kind of request meets each fault on each of the two ways. With its key a client repeats it until it is answered:
one effect, one answer. Without a key nobody repeats it: at most one effect, and exactly one if it was answered. Readers
that are cut off go on where they were; publishers on lines repeat what was not answered. At last clients write whole
sessions while faults come at random on both ways.
"""

from __future__ import annotations

import asyncio

from proofs.engines import Engine
from proofs.proof import Proof, Run
from proofs.proxy import Proxy
from proofs.servers import Server
from proofs.wire.broken import MUTATIONS
from proofs.wire.stage import PARTITIONS, Wire


async def prove(run: Run) -> None:
    settings = {"partitions": str(PARTITIONS)}
    with Engine(run.folder / "engine") as engine:
        async with Proxy(engine.url) as between:
            near = Server(run.folder / "near", redis_url=engine.url, settings=settings)
            far = Server(run.folder / "far", redis_url=between.url, settings=settings)
            try:
                await asyncio.gather(*(asyncio.to_thread(server.start) for server in (near, far)))
                await Wire(run, engine, between, near, far).prove()
            finally:
                near.end()
                far.end()


PROOF = Proof(
    "wire",
    "Whatever the network does to a request or its answer, between client, server and engine, a client that repeats it"
    " with its key has one effect and one answer, and a reader that resumes misses nothing and sees nothing twice.",
    prove,
    mutations=MUTATIONS,
    limit_s={"quick": 300.0, "full": 3_600.0},
)
