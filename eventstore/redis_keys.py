"""Every key that Layby uses, in one place.

All keys of one session, and the indexes that change with it, share a Redis Cluster slot: the hash tag is the
partition alone, `{p07}`. The tenant stands after it, so that a big tenant is no hot slot. `docs/redis-layout.md`
describes the same to the outside.

    layby:store                                  hash    what the store was initialised with (partitions, a secret)
    layby:keys                                   hash    the keys to the door, hashed
    layby:diverged                               hash    what was acknowledged and is lost, see `divergence.py`
    layby:{p07}:deadlines                        zset    <tenant>/<session>, by when its next deadline or lease passes
    layby:{p07}:feed                             stream  one entry a commit, trimmed
    layby:{p07}:sessions                         zset    <tenant>/<session>, all scores 0: what a rebuild goes through
    layby:{p07}:wake                             channel announcements of commits
    layby:{p07}:<tenant>:s:<session>:head        hash    the write-side state
    layby:{p07}:<tenant>:s:<session>:events      stream  the log; ids are <seq>-0
    layby:{p07}:<tenant>:s:<session>:calls       hash    a record a call
    layby:{p07}:<tenant>:s:<session>:dedup       hash    answers kept for retries
    layby:{p07}:<tenant>:s:<session>:dedup_age   zset    when each of them may be forgotten
    layby:{p07}:<tenant>:s:<session>:due:<call>  string  the TTL marker of a waiting call
    layby:{p07}:proj:…                                   read models, see `projections`
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote, unquote

STORE = "layby:store"
KEYRING = "layby:keys"
DIVERGED = "layby:diverged"
_SAFE = "_.-~"
_MARKER = re.compile(r"layby:\{p\d+\}:([^:]+):s:([^:]+):due:[^:]+")


def escape(name: str) -> str:
    """A name as part of a key: anything that could end the part early is percent-encoded, colons too."""
    return quote(name, safe=_SAFE)


def member(tenant: str, session_id: str) -> str:
    """How a session is named inside an index of its partition."""
    return f"{escape(tenant)}/{session_id}"


def split_member(text: str) -> tuple[str, str]:
    """Tenant and session id of a `member`."""
    tenant, _, session_id = text.partition("/")
    return unquote(tenant), session_id


def parse_marker(key: str) -> str | None:
    """The `member` of the session whose TTL marker this is; None for any other key."""
    found = _MARKER.fullmatch(key)
    return member(unquote(found[1]), unquote(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition; `tag` is its hash tag, such as `{p07}`."""

    number: int
    tag: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", f"layby:{{p{self.number:02d}}}")

    @property
    def deadlines(self) -> str:
        return f"{self.tag}:deadlines"

    @property
    def feed(self) -> str:
        return f"{self.tag}:feed"

    @property
    def sessions(self) -> str:
        return f"{self.tag}:sessions"

    @property
    def wake(self) -> str:
        return f"{self.tag}:wake"

    @property
    def indexes(self) -> list[str]:
        """deadlines, feed, sessions, wake. Each commit names them."""
        tag = self.tag
        return [f"{tag}:deadlines", f"{tag}:feed", f"{tag}:sessions", f"{tag}:wake"]

    def projection(self, generation: str, *parts: str) -> str:
        """A key of the read models: `layby:{p07}:proj:<generation>:…`."""
        return ":".join((self.tag, "proj", generation, *map(escape, parts)))


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of one session."""

    partition: PartitionKeys
    tenant: str
    session_id: str
    base: str = field(init=False, repr=False, compare=False)
    member: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Both are asked for with every commit."""
        base = f"{self.partition.tag}:{escape(self.tenant)}:s:{escape(self.session_id)}"
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "member", member(self.tenant, self.session_id))

    @property
    def head(self) -> str:
        return f"{self.base}:head"

    @property
    def events(self) -> str:
        return f"{self.base}:events"

    @property
    def calls(self) -> str:
        return f"{self.base}:calls"

    @property
    def dedup(self) -> str:
        return f"{self.base}:dedup"

    @property
    def dedup_age(self) -> str:
        return f"{self.base}:dedup_age"

    @property
    def fixed(self) -> list[str]:
        """All but the markers: head, events, calls, dedup, dedup_age. Each commit names them."""
        base = self.base
        return [f"{base}:head", f"{base}:events", f"{base}:calls", f"{base}:dedup", f"{base}:dedup_age"]

    def due(self, interrupt_id: str) -> str:
        return f"{self.base}:due:{escape(interrupt_id)}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The catalogue of a store with this many partitions."""

    partitions: int

    def partition(self, number: int) -> PartitionKeys:
        return PartitionKeys(number)

    def all_partitions(self) -> list[PartitionKeys]:
        return [PartitionKeys(number) for number in range(self.partitions)]

    def session(self, tenant: str, session_id: str) -> SessionKeys:
        """A stable hash of tenant and session id picks the partition; it must never change."""
        digest = sha256(f"{tenant}\0{session_id}".encode()).digest()
        return SessionKeys(PartitionKeys(int.from_bytes(digest[:4]) % self.partitions), tenant, session_id)
