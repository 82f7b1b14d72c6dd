"""Who publishes to which session over a line, and how what they send reaches it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from api.http.authentication import Authenticator, Principal
from api.http.headers import keyed, may_be_key
from api.publish_line.messages import events_text
from api.routes.publish import EVENTS
from eventstore.commit.batch import Answer, Retry
from eventstore.domain.commands import Publish
from eventstore.domain.errors import InvalidRequest
from eventstore.event_store import EventStore

LINE: Final = "/v1/sessions/{session_id}/publish"


@dataclass(frozen=True, slots=True)
class Publisher:
    """With the name of a producer, ids are idempotency keys."""

    door: Authenticator
    store: EventStore
    principal: Principal
    session_id: str
    producer: str | None

    @property
    def path(self) -> str:
        """That of the line."""
        return LINE.format(session_id=self.session_id)

    def retry(self, name: str, data: bytes) -> Retry | None:
        """The key of a message with this id: the same that its events would have as a request of their own.

        Raises `InvalidRequest`.
        """
        if self.producer is None:
            return None
        key = f"{self.producer}:{name}"
        if not may_be_key(key):
            what = "with the producer's name and a colon before it must be at most 200 printable ASCII characters"
            raise InvalidRequest.body("/id", what)
        return keyed(EVENTS.format(session_id=self.session_id), self.principal, key, events_text(data))

    def submit(self, command: Publish, retry: Retry | None) -> asyncio.Future[Answer]:
        """See `EventStore.submit`. Raises `Unauthorized` once the key is gone: the line is cut a moment later."""
        principal = self.principal
        self.door.readmit(principal)
        return self.store.submit(principal.tenant, self.session_id, command, principal.actor, retry)

    def under_way(self, retry: Retry) -> asyncio.Future[Answer] | None:
        """See `EventStore.under_way`."""
        return self.store.under_way(self.principal.tenant, self.session_id, retry)

    async def confirm(self) -> str:
        """See `EventStore.confirm`."""
        return await self.store.confirm(self.principal.tenant, self.session_id)
