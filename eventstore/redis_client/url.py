"""Where the store is: one Redis, a cluster, or a master that Sentinels watch, as a URL names it.

    redis://[user:password@]host[:port][/<database>][?…]           one Redis; rediss:// with TLS
    unix://[user:password@]/path[?db=<database>&…]                 the same by its socket
    redis+cluster://[user:password@]host:port[,host:port…][?…]     some nodes of a cluster; the others are found
    redis+sentinel://[user:password@]host:port[,host:port…]/<master>[/<database>][?…]

User and password are those of Redis. What stands behind `?` goes to each connection
(`eventstore/redis_client/url_options.py`).
redis-py passes over much of what it cannot read, and trips over the rest later: so all of it is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from eventstore.redis_client.url_options import find_fault

PORTS = {"cluster": 6379, "sentinel": 26379}
SENTINEL_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}
Host = tuple[str, int]
_DATABASE = re.compile("[0-9]{0,9}", re.ASCII)
_UNREADABLE = (
    "the Redis URL cannot be read: a port is a number from 1 to 65535, and characters such as / ? # [ ] in a user or"
    " password are percent-encoded"
)


class UnfitEngine(Exception):
    """Layby does not run on this engine as it is. The message tells the operator why, and what mends it."""


class WrongAddress(UnfitEngine):
    """The URL names no Redis. The message never repeats it, since it may hold a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, read. `hosts` are nodes of a cluster, or Sentinels; of one Redis there are none."""

    url: str
    kind: Literal["single", "cluster", "sentinel"] = "single"
    hosts: Sequence[Host] = ()
    master: str = ""
    database: int = 0
    credentials: str = ""
    options: str = ""
    sentinel_credentials: tuple[tuple[str, str], ...] = ()

    def url_of(self, host: Host) -> str:
        """The URL of one engine, with everything that holds for all of them."""
        return f"redis://{self.credentials}{spell(host)}/{self.database}{self.options}"


def spell(host: Host) -> str:
    """`host:port`, as people write it."""
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"


def check_url(url: str) -> None:
    """Raises `WrongAddress` for a URL that cannot be read."""
    parse(url)


def parse(url: str) -> Address:
    """Raises `WrongAddress`."""
    scheme, _, rest = url.partition("://")
    kind = scheme.removeprefix("redis+")
    if kind == "cluster":
        return _cluster(url, rest)
    if kind == "sentinel":
        return _sentinel(url, rest)
    return _single(url, scheme)


def _single(url: str, scheme: str) -> Address:
    parts = _read(url)
    if scheme == "unix":
        if parts.hostname or not parts.path:
            raise WrongAddress("unix:// names no socket: its path begins with a third slash, unix:///run/redis.sock")
    elif not _DATABASE.fullmatch(parts.path.removeprefix("/")):
        raise WrongAddress(f"the database behind the host in {scheme}:// must be a whole number")
    _check_options(parts.query, scheme)
    return Address(url)


def _read(url: str) -> SplitResult:
    """As redis-py will read it."""
    try:
        parts = urlsplit(url)
        unquote(parts.hostname or "").encode("idna")  # as every name is looked up
        if parts.port == 0 or parts.fragment:
            raise ValueError
    except ValueError:
        raise WrongAddress(_UNREADABLE) from None
    return parts


def _check_options(query: str, scheme: str) -> None:
    if fault := find_fault(query, scheme):
        raise WrongAddress(fault)


def _cluster(url: str, rest: str) -> Address:
    before, _, query = rest.partition("?")
    credentials, named, path = _split(before)
    if path not in ("", "0"):
        raise WrongAddress(
            "a Redis Cluster has database 0 only: leave out what follows the last host of redis+cluster://"
        )
    _check_options(query, "redis+cluster")
    hosts = _hosts(named, "cluster")
    return _checked(Address(url, "cluster", hosts, credentials=credentials, options=_options(query)))


def _sentinel(url: str, rest: str) -> Address:
    before, _, query = rest.partition("?")
    credentials, named, path = _split(before)
    master, _, database = path.partition("/")
    if not master:
        raise WrongAddress(
            "redis+sentinel:// lacks the master's name: redis+sentinel://host:26379[,host:26379…]/<master>"
        )
    if not _DATABASE.fullmatch(database):
        raise WrongAddress("the database behind the master's name in redis+sentinel:// must be a whole number")
    pairs = parse_qsl(query, keep_blank_values=True)
    own = tuple((SENTINEL_OPTIONS[name], value) for name, value in pairs if name in SENTINEL_OPTIONS)
    others = urlencode([(name, value) for name, value in pairs if name not in SENTINEL_OPTIONS])
    _check_options(others, "redis+sentinel")
    hosts = _hosts(named, "sentinel")
    return _checked(Address(url, "sentinel", hosts, master, int(database or 0), credentials, _options(others), own))


def _checked(address: Address) -> Address:
    for host in address.hosts:
        _read(address.url_of(host))
    return address


def _split(before: str) -> tuple[str, str, str]:
    """Credentials with their `@`, hosts, and path. A password may hold any character, if need be percent-encoded."""
    credentials, at, hosts = before.rpartition("@")
    named, _, path = hosts.partition("/")
    return credentials + at, named, path


def _options(query: str) -> str:
    return f"?{query}" if query else ""


def _hosts(named: str, kind: Literal["cluster", "sentinel"]) -> list[Host]:
    return [_host(text, kind) for text in named.split(",")]


def _host(text: str, kind: Literal["cluster", "sentinel"]) -> Host:
    if text.startswith("["):
        name, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, colon, port = text.partition(":")
        if colon and not port:
            port = "none"
    if not name:
        raise WrongAddress(f"redis+{kind}:// lacks a host: redis+{kind}://host:port[,host:port…]")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise WrongAddress(f"a port in redis+{kind}:// is no number from 1 to 65535 (the host is {name})")
    return name, int(port or PORTS[kind])
