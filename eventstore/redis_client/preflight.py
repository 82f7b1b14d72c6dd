"""Whether an engine is fit to keep a log: new enough, not one that evicts, and one that lets us do our work."""

from __future__ import annotations

import logging
import re
import shlex
import ssl
from collections.abc import Generator
from typing import Any

from redis import exceptions as redis_errors

from eventstore.domain.errors import StoreUnavailable
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.node import ONLY
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_client.url import UnfitEngine, spell
from eventstore.redis_keys import STORE, Keys

log = logging.getLogger("layby.store")

OLDEST_REDIS = (7, 0)
RIGHTS = scripts.load("eventstore", "check_permissions", writes=False)

_URL = "--redis-url or LAYBY_REDIS_URL"
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
            "HDEL": " f", "HEXISTS": " f", "HGET": " f", "HGETALL": "", "HKEYS": "", "HLEN": "",
            "HMGET": " f", "HSET": " f v",
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


class EvictingEngine(UnfitEngine):
    """The engine may throw events away when its memory is full."""


class EngineTooOld(UnfitEngine):
    """The engine lacks commands that Layby is built on."""


class OneOfSeveral(UnfitEngine):
    """The URL names a node of a cluster as if it were one Redis."""


def tell_silence(error: StoreUnavailable, url: str | None) -> str:
    """One line for the operator: why the store of this URL (None: the embedded engine) could not be used."""
    causes = list(_causes(error))
    if not causes:
        return error.detail
    why = str(causes[0]) or type(causes[0]).__name__
    if any(isinstance(cause, redis_errors.AuthenticationError) for cause in causes):
        return f"Redis refuses the user or the password of {_URL}, or wants one: {why.rstrip('.')}"
    if any(isinstance(cause, redis_errors.ResponseError) for cause in causes):
        return _refused(ONLY, why)
    tls = bool(url and url.startswith("rediss:"))
    if any(isinstance(cause, ssl.SSLError) or (tls and isinstance(cause, FileNotFoundError)) for cause in causes):
        return f"there is no TLS with Redis: check {_URL}, its ssl_ options and the certificates ({why.rstrip('.')})"
    hint = "and that it runs"
    if tls:
        hint = "that it runs, and that it speaks TLS on that port (redis:// is without)"
    elif any(isinstance(cause, ConnectionResetError) for cause in causes):
        hint = "that it runs, and whether it wants TLS (rediss://)"
    return f"Redis does not answer ({why.rstrip('.')}): check {_URL}, {hint}"


def _causes(error: BaseException) -> Generator[BaseException]:
    while cause := error.__cause__ or error.__context__:
        yield cause
        error = cause


class RightsMissing(UnfitEngine):
    """The user of the connection may not do all that Layby does."""


async def check_engine(connection: RedisClient) -> None:
    """Check every engine that takes writes; of replicas, which may take over, only warn.

    Raises `UnfitEngine` and `StoreUnavailable`.
    """
    await connection.sender.find()
    if not connection.changes:
        await _check_alone(connection)
    for node in list(connection.nodes):
        await _check_one(node.name, connection.at(node))
    for host in connection.topology.replicas:
        name = f"the replica {spell(host)}"
        try:
            await _check_one(name, connection.at(connection.topology.named(host)))
        except (UnfitEngine, StoreUnavailable, redis_errors.ResponseError) as error:
            log.warning("%s should not take over: %s", name, error)


async def _check_one(name: str, connection: RedisClient) -> None:
    try:
        await _check_settings(name, connection)
        await _check_rights(name, connection)
    except redis_errors.NoPermissionError as error:
        named = re.search(r"'([a-z|]+)' command", str(error))
        raise _rights_missing(name, connection, str(error), [f"+{named[1]}"] if named else []) from None
    except redis_errors.ResponseError as error:  # such as a database that there is not
        raise UnfitEngine(_refused(name, str(error))) from None


def _refused(name: str, why: str) -> str:
    return f"{name} refuses what Layby needs: {why}; check {_URL}"


async def _check_rights(name: str, connection: RedisClient) -> None:
    """Find out at the start, since a script that is refused half-way has written half; by a script, so that it is known
    that scripts can be loaded and run."""
    commands = [command for group in NEEDED.values() for command in group]
    refused: list[bytes] = await connection.run(ScriptCall(RIGHTS, [], commands))
    if refused:
        texts = [text.decode() for text in refused]
        raise _rights_missing(name, connection, f"it may not run {texts[0]}", list(_mending(texts)))


def _mending(refused: list[str]) -> dict[str, None]:
    """The ACL rules that are missing, each once. None that is there already: Redis refuses some of those."""
    rules = dict[str, None]()
    for mends, group in NEEDED.items():
        found = [command for command in group if command in refused]
        rules |= dict.fromkeys(mends if found == group else [f"+{command.split(' ')[0].lower()}" for command in found])
    return rules


def _rights_missing(name: str, connection: RedisClient, what: str, rules: list[str]) -> RightsMissing:
    known = connection.client.connection_pool.connection_kwargs
    user = known.get("username") or "default"
    where = () if name == ONLY else ("-h", str(known.get("host")), "-p", str(known.get("port")))
    mend = shlex.join(["redis-cli", *where, "ACL", "SETUSER", user, *rules])
    return RightsMissing(f"{name} does not let user {user} do what Layby needs ({what}); run: {mend}")


async def _check_settings(name: str, connection: RedisClient) -> None:
    version = await info(connection, "redis_version")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_REDIS:
        raise EngineTooOld(f"{name} is version {version or 'unknown'}; Layby needs Redis 7.0 or newer")
    policy = (await config(connection, "maxmemory-policy")).get("maxmemory-policy", "")
    if not policy:
        policy = await info(connection, "maxmemory_policy")
        log.warning("%s forbids CONFIG; INFO gives maxmemory-policy as %s", name, policy or "unknown")
    if policy and policy != "noeviction":
        raise EvictingEngine(
            f"{name} has maxmemory-policy {policy} and would evict events; run: redis-cli CONFIG SET"
            + " maxmemory-policy noeviction"
        )


async def _check_alone(connection: RedisClient) -> None:
    """A cluster of one node may be spoken to as one Redis; one of several serves but a part of the store."""
    try:
        if await info(connection, "cluster_enabled") != "1":
            return
        about: bytes = await connection.command("CLUSTER", "INFO")
    except redis_errors.ResponseError:
        return
    if (found := re.search(rb"cluster_size:(\d+)", about)) and int(found[1]) > 1:
        raise OneOfSeveral(
            "this Redis is one node of a cluster; name some of its nodes: redis+cluster://host:port,host:port"
        )


async def config(connection: RedisClient, pattern: str) -> dict[str, str]:
    """CONFIG GET, or nothing where the engine forbids it."""
    try:
        reply: Any = await connection.command("CONFIG", "GET", pattern)
    except redis_errors.ResponseError:
        return {}
    pairs: Any = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # redis-py may have parsed it
    return {_text(name): _text(value) for name, value in pairs}


async def info(connection: RedisClient, name: str) -> str:
    """One field of INFO, which nearly every engine allows."""
    reply: Any = await connection.command("INFO")
    return str(reply.get(name, ""))  # redis-py parses INFO into a dict


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
