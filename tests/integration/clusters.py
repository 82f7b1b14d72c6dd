"""What the tests on clusters share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from eventstore.event_store import EventStore
from proofs.engines import Cluster, Engine
from tests.integration.stores import TENANT, chosen, close, open_at

PARTITIONS = 8
AT_ONCE = {"repl_diskless_load": "on-empty-db", "repl_diskless_sync": "no"}
"""Options of engines: an empty replica is in step within milliseconds. Where the primary makes no file, or the replica
makes one, something is waited for that happens once a second."""


@asynccontextmanager
async def opened(url: str, count: int = 1, **settings: object) -> AsyncGenerator[Sequence[EventStore]]:
    """Event stores, each as a process of its own would open it."""
    stores = list[EventStore]()
    try:
        for _ in range(count):
            stores.append(await open_at(url, chosen(partitions=PARTITIONS, **settings)))
        yield stores
    finally:
        for store in stores:
            await close(store)


def slot_of(store: EventStore, session_id: str) -> int:
    return Cluster.slot(store.session_keys(TENANT, session_id).head)


def at(cluster: Cluster, store: EventStore, node: Engine, prefix: str = "s", count: int = 1) -> list[str]:
    """Names of sessions that this node serves."""
    names = (f"{prefix}{n}" for n in range(10_000))
    served = (name for name in names if cluster.owner(slot_of(store, name)) is node)
    return [next(served) for _ in range(count)]


async def clear(nodes: Sequence[Engine]) -> None:
    """Empty them, whoever leads at the moment."""
    for node in nodes:
        if node.alive and node.client.info("replication")["role"] == "master":
            await asyncio.to_thread(node.client.flushall)
