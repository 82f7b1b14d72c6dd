"""Ids for new sessions that were given none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request

from api.headers import idempotency_key, retry_sources
from api.services import Services
from api.wire import Posted
from eventstore.batch import Answer
from eventstore.domain import ids
from eventstore.domain.commands import CreateSession
from eventstore.domain.errors import SessionExists

PREFIX: Final = "ses_"
GENERATIONS: Final = 32
"""How many sessions one Idempotency-Key may make over the days, each after the one before was forgotten."""


async def create(services: Services, post: Posted, command: CreateSession) -> Answer:
    """Make the session that the command names."""
    principal = post.principal
    return await services.store.execute(principal.tenant, command.session_id, command, principal.actor, post.retry)


async def create_unnamed(
    services: Services, request: Request, post: Posted, command: Callable[[str], CreateSession]
) -> Answer:
    """Make a session whose id is ours to choose; `command` is what makes it under an id.

    With an Idempotency-Key the id follows from the key, so that a retry finds what the first request made. After a
    day the store forgets the key; its session is in the way then, and the next generation's id is taken.
    """
    key = idempotency_key(request)
    if key is None:
        return await create(services, post, command(ids.random_id(PREFIX)))
    sources = retry_sources(request, post.principal, key)
    for generation in range(GENERATIONS):
        try:
            return await create(services, post, command(ids.derived_id(PREFIX, *sources, str(generation))))
        except SessionExists:
            continue
    raise SessionExists("this Idempotency-Key has made many sessions over the days; use a new key")
