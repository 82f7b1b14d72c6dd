"""Follow one session with nothing but a Redis client, and check its hash chain on the way.

    python tail_with_redis.py URL SESSION [FROM] [--tenant TENANT]

    python tail_with_redis.py redis://127.0.0.1:6379/0 ses_01 1
    python tail_with_redis.py unix://layby-data/engine.sock ses_01 1      an embedded engine

Prints each event as it was recorded, one a line, and ends with the session. Exit code 1: the log is not what was
recorded, or there is no such session. How the keys are made is told in docs/redis-layout.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import cast
from urllib.parse import quote

from redis import Redis

GENESIS = "0" * 64
AT_ONCE = 1_000
LOOK_AGAIN_MS = 5_000
"""How long to wait for news before looking whether the session still exists."""
Entry = tuple[bytes, dict[bytes, bytes]]
"""The id and the fields of an event in its stream."""


class Broken(Exception):
    """The log is not what was recorded."""


def session_key(redis: Redis, tenant: str, session_id: str) -> str:
    """What all keys of the session begin with."""
    partitions = int(redis.hget("layby:store", "partitions") or 0)
    if not partitions:
        raise Broken("this Redis holds no Layby store")
    digest = sha256(f"{tenant}\0{session_id}".encode()).digest()
    number = int.from_bytes(digest[:4], "big") % partitions
    return f"layby:{{p{number:02d}}}:{escape(tenant)}:s:{escape(session_id)}"


def escape(name: str) -> str:
    """Percent-encoded, all but letters, digits and `_.-~`."""
    return quote(name, safe="_.-~")


def follow(redis: Redis, session: str, first: int) -> Iterator[bytes]:
    """The recorded lines from `first` on, each as soon as it is there, until the session is over."""
    events, seq = f"{session}:events", first
    previous = hash_of(redis, events, first - 1)
    while True:
        status = redis.hget(f"{session}:head", "status")  # before the log: so what is read after an end is all there is
        if status in (None, b"deleted"):
            raise Broken("there is no session of this id" if status is None else "the session was deleted")
        entries = read(redis, events, f"{seq}-0", "+")
        for entry, fields in entries:
            previous = check(entry, fields, seq, previous)
            yield fields[b"e"]
            seq += 1
        if not entries and status in (b"completed", b"failed"):
            return
        if not entries:
            redis.xread({events: f"{seq - 1}-0"}, count=1, block=LOOK_AGAIN_MS)  # only to wait


def read(redis: Redis, events: str, first: str, last: str) -> list[Entry]:
    return cast("list[Entry]", redis.xrange(events, first, last, count=AT_ONCE))


def hash_of(redis: Redis, events: str, seq: int) -> str:
    """The hash that the event after this one builds on."""
    if not seq:
        return GENESIS
    found = read(redis, events, f"{seq}-0", f"{seq}-0")
    if not found:
        raise Broken(f"there is no event {seq} yet, after which to begin")
    return found[0][1][b"h"].decode()


def check(entry: bytes, fields: dict[bytes, bytes], seq: int, previous: str) -> str:
    """The hash of this event. Raises `Broken` if it does not follow from the hash before it and the line."""
    if entry != b"%d-0" % seq:
        raise Broken(f"event {seq} is missing")
    computed = sha256(previous.encode() + fields[b"e"]).hexdigest()
    if computed != fields[b"h"].decode():
        raise Broken(f"event {seq} does not follow from what stands before it")
    return computed


def main() -> int:
    parser = argparse.ArgumentParser(description="Follow a session by Redis alone.")
    parser.add_argument("url")
    parser.add_argument("session")
    parser.add_argument("first", metavar="FROM", nargs="?", type=int, default=1)
    parser.add_argument("--tenant", default="default")
    asked = parser.parse_args()
    redis = Redis.from_url(asked.url)  # pyright: ignore[reportUnknownMemberType]  # its further options have no types
    try:
        for line in follow(redis, session_key(redis, asked.tenant, asked.session), asked.first):
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.flush()
    except Broken as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
