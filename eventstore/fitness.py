"""Whether an engine is fit to keep a log: new enough, not one that evicts, and one that lets us do our work."""

from __future__ import annotations

import logging
import re
import shlex
from typing import Any

from redis import exceptions as redis_errors

from eventstore import scripts
from eventstore.connection import Connection
from eventstore.keys import STORE, Keys
from eventstore.scripts import ScriptCall

log = logging.getLogger("layby.store")

OLDEST_REDIS = (7, 0)
NOT_YET = ("redis+cluster", "redis+sentinel")
RIGHTS = scripts.load("eventstore", "rights", writes=False)

_PARTITION = Keys(1).partition(0)
_KEY, _WAKE, _EXPIRED = f"{_PARTITION.tag}:probe", _PARTITION.wake, "__keyevent@*__:expired"

NEEDED = {
    ("+time",): ["TIME"],
    ("~layby:*", "+hsetnx"): [f"HSETNX {STORE} f v", f"HGET {STORE} f"],
    ("&layby:*", "+spublish", "+ssubscribe"): [f"SPUBLISH {_WAKE} m", f"SSUBSCRIBE {_WAKE}"],
    (f"&{_EXPIRED}", "+psubscribe"): [f"PSUBSCRIBE {_EXPIRED}"],
    ("~layby:*",): [
        f"{name} {_KEY}{arguments}"
        for name, arguments in {
            "DEL": "", "EXISTS": "", "GET": "", "MGET": "", "PEXPIRE": " 1", "PEXPIREAT": " 1", "SET": " v",
            "UNLINK": "",
            "HDEL": " f", "HGET": " f", "HMGET": " f", "HSET": " f v",
            "LRANGE": " 0 1", "LSET": " 0 v", "RPUSH": " v",
            "XADD": " * f v", "XRANGE": " - +", "XREVRANGE": " + -",
            "ZADD": " 0 m", "ZCARD": "", "ZLEXCOUNT": " - +", "ZRANGE": " 0 1", "ZRANGEBYLEX": " - +",
            "ZRANGEBYSCORE": " 0 1",
            "ZREM": " m", "ZSCORE": " m",
        }.items()
    ] + [f"XINFO STREAM {_KEY}"],
}  # fmt: skip
"""What Layby cannot do without, its read models and offline commands included. All of a group is refused where the
right to its keys or channels is missing: the rules that it stands under mend that. Else it is the command alone."""


class UnfitEngine(Exception):
    """Layby does not run on this engine as it is. The message tells the operator why, and what mends it."""


class EvictingEngine(UnfitEngine):
    """The engine may throw events away when its memory is full."""


class EngineTooOld(UnfitEngine):
    """The engine lacks commands that Layby is built on."""


class NotSupportedYet(UnfitEngine):
    """The URL names a Redis of a kind that a later version may speak to."""


def check_url(url: str) -> None:
    """Raises `NotSupportedYet` for Redis Cluster and Sentinel: the settings know their URLs, the rest does not yet."""
    scheme = url.partition("://")[0]
    if scheme in NOT_YET:
        raise NotSupportedYet(f"{scheme}:// is not supported yet: name one Redis, as redis://host:port")


class RightsMissing(UnfitEngine):
    """The user of the connection may not do all that Layby does."""


async def check_engine(connection: Connection) -> None:
    """Raises `UnfitEngine` and `StoreUnavailable`."""
    try:
        await _check_settings(connection)
        await _check_rights(connection)
    except redis_errors.NoPermissionError as error:
        named = re.search(r"'([a-z|]+)' command", str(error))
        raise _rights_missing(connection, str(error), [f"+{named[1]}"] if named else []) from None


async def _check_rights(connection: Connection) -> None:
    """Find out at the start, since a script that is refused half-way has written half; by a script, so that it is known
    that scripts can be loaded and run."""
    commands = [command for group in NEEDED.values() for command in group]
    refused: list[bytes] = await connection.run(ScriptCall(RIGHTS, [], commands))
    if refused:
        texts = [text.decode() for text in refused]
        raise _rights_missing(connection, f"it may not run {texts[0]}", list(_mending(texts)))


def _mending(refused: list[str]) -> dict[str, None]:
    """The ACL rules that are missing, each once. None that is there already: Redis refuses some of those."""
    rules = dict[str, None]()
    for mends, group in NEEDED.items():
        found = [command for command in group if command in refused]
        rules |= dict.fromkeys(mends if found == group else [f"+{command.split(' ')[0].lower()}" for command in found])
    return rules


def _rights_missing(connection: Connection, what: str, rules: list[str]) -> RightsMissing:
    user = connection.client.connection_pool.connection_kwargs.get("username") or "default"
    mend = shlex.join(["redis-cli", "ACL", "SETUSER", user, *rules])
    return RightsMissing(f"Redis does not let user {user} do what Layby needs ({what}); run: {mend}")


async def _check_settings(connection: Connection) -> None:
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
