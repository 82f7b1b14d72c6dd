"""The questions that readers ask. Every answer includes whatever was acknowledged before the question.

A session's snapshot is its stored view with the newest events folded on. For what spans sessions, the projectors of
the partitions are brought up to date first, and what is overdue is let expire.
"""

from __future__ import annotations

from typing import Any

from eventstore.event_store import EventStore
from eventstore.redis_client.client import RedisClient
from projections.projector.background import BackgroundProjectors
from projections.queries.index_pages import IndexPages
from projections.queries.session_lists import SessionLists
from projections.queries.session_reader import SessionReader
from projections.queries.snapshots import Snapshots
from projections.queries.tenant_lists import TenantLists


class ReadModels:
    """Snapshots, lists and the inbox of one store; with `start`, kept up to date in the background too."""

    def __init__(self, client: RedisClient, store: EventStore) -> None:
        """`client` reads and writes the models that the commits of `store` lead to."""
        upkeep = BackgroundProjectors(client, store)
        reader = SessionReader(client, store, upkeep)
        self._store: EventStore = store
        self._upkeep: BackgroundProjectors = upkeep
        self._snapshots: Snapshots = Snapshots(store, reader)
        self._parts: SessionLists = SessionLists(reader, upkeep)
        self._lists: TenantLists = TenantLists(IndexPages(client, store, upkeep))

    def start(self) -> None:
        """Project in the background."""
        self._upkeep.start()

    async def close(self) -> None:
        """Stop that."""
        await self._upkeep.close()

    async def catch_up(self, number: int) -> None:
        """Take in everything that the feed of a partition holds now."""
        await self._upkeep.catch_up(number)

    def lag(self) -> dict[str, Any]:
        """How many partitions wait to be projected."""
        return {"partitions_behind": self._upkeep.behind}

    async def session(self, tenant: str, session_id: str) -> tuple[int, bytes]:
        """The snapshot as it is now: its seq, and its JSON. Raises `SessionNotFound`, `SessionDeleted`."""
        return await self._snapshots.now(tenant, session_id)

    async def session_at(
        self, tenant: str, session_id: str, *, at: int | None = None, at_time: int | None = None
    ) -> tuple[int, bytes]:
        """The same as of a seq or of a time (ms). Raises `NoSuchPoint`."""
        return await self._snapshots.past(tenant, session_id, at=at, at_time=at_time)

    async def steps(self, tenant: str, session_id: str, limit: int, cursor: str | None) -> bytes:
        """A page of all steps, oldest first, as JSON. Raises `InvalidRequest` for a garbled cursor."""
        return await self._parts.page("steps", self._store.session_keys(tenant, session_id), limit, cursor)

    async def calls(self, tenant: str, session_id: str, limit: int, cursor: str | None) -> bytes:
        """A page of all calls, oldest first, as JSON. Raises `InvalidRequest` for a garbled cursor."""
        return await self._parts.page("calls", self._store.session_keys(tenant, session_id), limit, cursor)

    async def sessions(self, tenant: str, **query: Any) -> bytes:
        """A page of sessions, newest activity first. `query`: status, parked, agent, limit, cursor."""
        return await self._lists.sessions(tenant, **query)

    async def inbox(self, tenant: str, **query: Any) -> bytes:
        """A page of calls over all sessions, nearest deadline first.

        `query`: status, tool_name, agent, limit, cursor."""
        return await self._lists.inbox(tenant, **query)

    async def newest_authorization(self, tenant: str, interrupt_id: str) -> str | None:
        """The session that asked for this authorization: the newest that still waits for it, else the newest."""
        return await self._lists.newest_authorization(tenant, interrupt_id)
