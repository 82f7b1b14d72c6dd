"""Reads of what is stored of one session, as of one moment: its models belong to the generation that is served, and
nothing in it is overdue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from eventstore.commit.records import refuse_absent
from eventstore.domain.errors import InternalError, StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import SessionKeys
from projections import redis_keys
from projections.projector.background import BackgroundProjectors
from projections.redis_keys import Layout

log = logging.getLogger("layby.projections")

_ATTEMPTS = 10


class SessionReader:
    """Runs scripts whose reply begins with the time, the served generation, and revision, seq and due of the head."""

    def __init__(self, client: RedisClient, store: EventStore, upkeep: BackgroundProjectors) -> None:
        self._client: RedisClient = client
        self._store: EventStore = store
        self._upkeep: BackgroundProjectors = upkeep

    async def read(self, keys: SessionKeys, call: Callable[[Layout], ScriptCall]) -> tuple[int, list[Any]]:
        """The seq of the session, and the rest of the reply.

        Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`.
        """
        projector = self._upkeep.projectors[keys.partition.number]
        for _ in range(_ATTEMPTS):
            reply = await self._client.run(call(projector.layout))
            now, pointer, (revision, seq, due), *rest = reply
            if not projector.serves(redis_keys.generation(pointer)):
                continue
            refuse_absent((revision or b"").decode())
            if due and int(due) <= int(now):
                await self._store.expire(keys.tenant, keys.session_id)
                continue
            return int(seq), rest
        raise StoreUnavailable("the session changes too fast to be read; try again")


def broken(keys: SessionKeys) -> InternalError:
    """The problem of a session whose log is not one that Layby has written; the operator hears more."""
    log.error("session %s cannot be shown; run `layby verify %s`", keys.session_id, keys.session_id)
    return InternalError()
