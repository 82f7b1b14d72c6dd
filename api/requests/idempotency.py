"""Requests whose path does not say which session they go to: creations, and what names its session in the body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from api.http.headers import idempotency_key, retry_sources
from api.requests.endpoint import Received
from api.services import Services
from eventstore.commit.batch import Answer
from eventstore.domain.commands import Command, CreateSession
from eventstore.domain.errors import IdempotencyKeyReused, Refused, RequestInProgress, SessionExists
from eventstore.domain.values import ids

PREFIX: Final = "ses_"
GENERATIONS: Final = 32
"""How many sessions one Idempotency-Key may make over the days, each after the one before was forgotten."""


async def execute_anchored(
    services: Services, received: Received, session_id: str, command: Command
) -> tuple[str, Answer]:
    """Carry out a command on a session that the body chose, and tell on which one.

    The same Idempotency-Key with another body is refused, whatever session it names, and a retry goes where its first
    attempt went. Only success is kept: a refusal gives the key free, a crash leaves it to a retry of the same body.
    """
    principal, retry, store = received.principal, received.retry, services.store
    anchor = retry and await store.hold_idempotency_key(principal.tenant, _places(received), retry, session_id)
    name = anchor.session_id if anchor else session_id
    try:
        return name, await store.execute(principal.tenant, name, command, principal.actor, retry)
    except Refused as error:
        if anchor and retry and not isinstance(error, RequestInProgress | IdempotencyKeyReused):
            await store.release_idempotency_key(principal.tenant, anchor, retry)
        raise


async def create(services: Services, received: Received, command: CreateSession) -> Answer:
    """Make the session that the command names."""
    _, answer = await execute_anchored(services, received, command.session_id, command)
    return answer


async def create_unnamed(services: Services, received: Received, command: Callable[[str], CreateSession]) -> Answer:
    """Make a session whose id is ours to choose; `command` is what makes it under an id.

    With an Idempotency-Key the id follows from the key, so that a retry finds what the first request made. After a
    day the store forgets the key; its session is in the way then, and the next generation's id is taken.
    """
    principal, store = received.principal, services.store
    for name in _places(received):
        try:
            return await store.execute(principal.tenant, name, command(name), principal.actor, received.retry)
        except SessionExists:
            continue
    raise SessionExists("this Idempotency-Key has made many sessions over the days; use a new key")


def _places(received: Received) -> Iterator[str]:
    """The ids that a creation may take, one after another."""
    key = idempotency_key(received.request)
    if key is None:
        yield ids.random_id(PREFIX)
        return
    sources = retry_sources(received.request.scope["path"], received.principal, key)
    for generation in range(GENERATIONS):
        yield ids.derived_id(PREFIX, *sources, str(generation))
