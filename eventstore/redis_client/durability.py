"""What an acknowledgement means: in memory, on disk, or on the disks of replicas too.

An engine with `appendfsync always` has synced before it answers. Any other is asked with WAITAOF (Redis 7.2, Valkey)
at the end of each pipeline. What a version cannot do is not claimed: the answer says what was reached.

Where another engine may take over, it may be configured otherwise. So there each pipeline is confirmed, by the engine
that ran it; only versions that know no WAITAOF are taken by the configuration that all of them had at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from redis import exceptions as redis_errors

from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.preflight import config, info
from eventstore.redis_client.scripts import Argument
from eventstore.settings import Durability

log = logging.getLogger("layby.store")
WAIT_MS = 2_000
"""How long an engine may take to sync, and its replicas to tell. One that syncs every second needs that, and more."""


class Confirmation:
    """How a pipeline is confirmed, for one engine and one setting."""

    def __init__(self, wanted: Durability, *, synced: bool, can_wait: bool) -> None:
        """`synced`: the engine syncs before it answers. `can_wait`: it knows WAITAOF and has an append-only file."""
        self._wanted: Durability = wanted
        self._synced: bool = synced
        waits = can_wait and (wanted.kind == "replicated" or (wanted.kind == "fsync" and not synced))
        self.command: Sequence[Argument] = ("WAITAOF", 1, wanted.replicas, WAIT_MS) if waits else ()

    @property
    def usual(self) -> str:
        """What every commit reaches, where none of them needs to be confirmed."""
        return "fsync" if self._synced else "memory"

    def reached(self, reply: Any = None) -> str:
        """The durability that the reply of `command` proves; what is reached without one, where there is none."""
        local, replicas = (self._synced, 0)
        if isinstance(reply, list) and len(reply) == 2:  # pyright: ignore[reportUnknownArgumentType] # [local, replicas]
            local, replicas = bool(reply[0]) or self._synced, int(reply[1])  # pyright: ignore[reportUnknownArgumentType] # integers
        if self._wanted.kind == "replicated" and local and replicas >= self._wanted.replicas:
            return "replicated"
        return "fsync" if local else "memory"


async def confirmation(connection: RedisClient, wanted: Durability) -> Confirmation:
    """Find out what the engines can do; tell the operator where that is less than was asked for."""
    if wanted.kind == "replicated":
        for node in connection.nodes:
            await _warn_of_lacking_replicas(node.name, connection.at(node), wanted)
    able = [await _ability(node.name, connection.at(node), wanted) for node in connection.nodes]
    synced = all(can for can, _ in able)
    can_wait = any(can for _, can in able)  # one that cannot answers with an error, and nothing is claimed
    return Confirmation(wanted, synced=synced and not (connection.changes and can_wait), can_wait=can_wait)


async def _warn_of_lacking_replicas(name: str, connection: RedisClient, wanted: Durability) -> None:
    """Each commit waits for them, and they may never come: the embedded engine has none."""
    found = await info(connection, "connected_slaves")
    if found.isdigit() and int(found) < wanted.replicas:
        log.warning(
            "%s has %s replicas, and durability is %s: each commit waits %d s for those that lack, and its answer says"
            + " what was reached. Mend: attach replicas to a Redis of your own, or set durability to fsync",
            name,
            found,
            wanted,
            WAIT_MS // 1000,
        )


async def _ability(name: str, connection: RedisClient, wanted: Durability) -> tuple[bool, bool]:
    """Whether an engine syncs before it answers, and whether it can be asked."""
    configured = await config(connection, "append*")
    append_only = configured.get("appendonly", await info(connection, "aof_enabled")) in ("yes", "1")
    synced = append_only and configured.get("appendfsync") == "always"
    can_wait = append_only and await _knows_waitaof(connection)
    if wanted.kind != "memory" and not (synced or can_wait):
        log.warning(
            "%s cannot confirm that writes are on disk (appendonly %s, no appendfsync always, no WAITAOF): every"
            + " answer will say durability=memory. Mend: redis-cli CONFIG SET appendonly yes appendfsync always",
            name,
            "yes" if append_only else "no",
        )
    return synced, can_wait


async def _knows_waitaof(connection: RedisClient) -> bool:
    try:
        await connection.command("WAITAOF", 0, 0, 1)
    except redis_errors.ResponseError:
        return False
    return True
