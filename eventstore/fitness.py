"""Whether an engine is fit to keep a log: new enough, and not one that evicts."""

from __future__ import annotations

import logging
from typing import Any

from redis import exceptions as redis_errors

from eventstore.connection import Connection

log = logging.getLogger("layby.store")

OLDEST_REDIS = (7, 0)


class UnfitEngine(Exception):
    """Layby does not run on this engine as it is. The message tells the operator why, and what mends it."""


class EvictingEngine(UnfitEngine):
    """The engine may throw events away when its memory is full."""


class EngineTooOld(UnfitEngine):
    """The engine lacks commands that Layby is built on."""


async def check_engine(connection: Connection) -> None:
    """Raises `UnfitEngine`."""
    version = await info(connection, "redis_version")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_REDIS:
        raise EngineTooOld(f"the engine is Redis {version or 'of an unknown version'}; Layby needs 7.0 or newer")
    policy = (await config(connection, "maxmemory-policy")).get("maxmemory-policy", "")
    if not policy:
        policy = await info(connection, "maxmemory_policy")
        log.warning("Redis forbids CONFIG; INFO gives maxmemory-policy as %s", policy or "unknown")
    if policy and policy != "noeviction":
        raise EvictingEngine(
            f"Redis has maxmemory-policy {policy} and would evict events; run: redis-cli CONFIG SET maxmemory-policy"
            + " noeviction"
        )


async def config(connection: Connection, pattern: str) -> dict[str, str]:
    """CONFIG GET, or nothing where the engine forbids it."""
    try:
        reply: Any = await connection.command("CONFIG", "GET", pattern)
    except redis_errors.ResponseError:
        return {}
    pairs: Any = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # redis-py may have parsed it
    return {_text(name): _text(value) for name, value in pairs}


async def info(connection: Connection, name: str) -> str:
    """One field of INFO, which nearly every engine allows."""
    reply: Any = await connection.command("INFO")
    return str(reply.get(name, ""))  # redis-py parses INFO into a dict


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
