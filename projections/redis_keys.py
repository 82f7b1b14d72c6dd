"""The keys of the read models. All of a partition stand under one generation; a rebuild fills the next one.

layby:{p07}:proj:current                                 string  the generation that is served ("0" if absent)
layby:{p07}:proj:building                                string  the generation that a rebuild fills, while it does
layby:{p07}:proj:<g>:checkpoint                          string  the newest feed entry that is taken in
layby:{p07}:proj:<g>:<tenant>:s:<session>:view           hash    seq, record, row, open (names of open calls)
layby:{p07}:proj:<g>:<tenant>:s:<session>:steps          list    every step, in the order they began
layby:{p07}:proj:<g>:<tenant>:s:<session>:calls          hash    every call
layby:{p07}:proj:<g>:<tenant>:s:<session>:order          list    names of the calls, in the order they were asked
layby:{p07}:proj:<g>:<tenant>:sessions:<class>[:…]       zset    sessions by last activity; also of one agent
layby:{p07}:proj:<g>:<tenant>:inbox:<status>[:…]         zset    calls by deadline; also of one tool, agent, or both
layby:{p07}:proj:<g>:<tenant>:authorizations:all:<call>  zset    sessions that asked for it, by time
layby:{p07}:proj:<g>:<tenant>:authorizations:open:<call> zset    those of them in which it still waits
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from eventstore.redis_keys import PartitionKeys, escape

FIRST_GENERATION = "0"
REBUILDING = "layby:rebuilding"
"""The lock by which one `layby rebuild` keeps out another."""


@dataclass(frozen=True, slots=True)
class SessionModels:
    """The keys of one session's models."""

    view: str
    steps: str
    calls: str
    order: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys of one generation in one partition."""

    partition: PartitionKeys
    generation: str

    @property
    def checkpoint(self) -> str:
        return self._key("checkpoint")

    def session(self, tenant: str, session_id: str) -> SessionModels:
        base = self._key(tenant, "s", session_id)
        return SessionModels(f"{base}:view", f"{base}:steps", f"{base}:calls", f"{base}:order")

    def sessions(self, tenant: str, kind: str = "all", agent: str | None = None) -> str:
        """Sessions of a class (`running`, `parked`, `idle`, `completed`, `failed`, or `all`), of an agent."""
        return self._key(tenant, "sessions", kind, *_named("agent", agent))

    def inbox(self, tenant: str, status: str, *, tool: str | None = None, agent: str | None = None) -> str:
        """Calls of a status; of one tool, of one agent."""
        return self._key(tenant, "inbox", status, *_named("tool", tool), *_named("agent", agent))

    def authorizations(self, tenant: str, interrupt_id: str, *, open_only: bool) -> str:
        return self._key(tenant, "authorizations", "open" if open_only else "all", interrupt_id)

    def _key(self, *parts: str) -> str:
        return f"{self.partition.projection(self.generation)}:{_path(*parts)}"


@lru_cache(maxsize=10_000)
def _path(*parts: str) -> str:
    """The same in every partition, so a list asks for it many times over."""
    return ":".join(map(escape, parts))


def _named(kind: str, name: str | None) -> list[str]:
    return [] if name is None else [kind, name]


def current(partition: PartitionKeys) -> str:
    """The key that names the generation that is served."""
    return partition.projection("current")


def building(partition: PartitionKeys) -> str:
    """The key that names the generation that is being built; it goes by itself when its builder does."""
    return partition.projection("building")


def generation(pointer: bytes | None) -> str:
    """The generation that the pointer names."""
    return pointer.decode() if pointer else FIRST_GENERATION
