"""One Idempotency-Key, one session: for requests whose path says nothing of the session that they go to.

A retry record lies beside its session, and such a request names another session with another body. So the key has an
anchor first: a retry record at a place that follows from the key alone. That place is the session that the key would
make if none were named, so a request that names none meets the anchor as it meets any retry record, without asking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eventstore.commit.batch import Retry
from eventstore.commit.records import RETRY_KEPT_MS
from eventstore.commit.session_queue import reused
from eventstore.domain.values import json_text
from eventstore.redis_client import scripts
from eventstore.redis_client.pipeline import ScriptPipeline
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys, SessionKeys

HOLD = scripts.load("eventstore", "hold_idempotency_key")


@dataclass(frozen=True, slots=True)
class HeldKey:
    """Where a key is held, and for which session."""

    place: str
    session_id: str


class IdempotencyKeys:
    """Holds keys. What is lost with an engine that loses its newest writes is only that a misuse is noticed."""

    def __init__(self, dispatcher: ScriptPipeline, keys: Keys) -> None:
        self._dispatcher: ScriptPipeline = dispatcher
        self._keys: Keys = keys

    async def hold(self, tenant: str, places: Iterable[str], retry: Retry, session_id: str) -> HeldKey | None:
        """Hold the key for this session, or learn for which one a request with the same body held it before.

        None where the key needs no anchor: the session is the place itself, or all places are taken.
        Raises `IdempotencyKeyReused` for another body, `StoreUnavailable`, `StoreFull`.
        """
        for place in places:
            if place == session_id:
                return None  # its own retry record lies where the anchor would
            reply = await self._run(tenant, place, retry, session_id, RETRY_KEPT_MS)
            if reply[0] == b"held":
                kept = json_text.read(reply[1])
                if kept["fingerprint"] != retry.fingerprint:
                    raise reused()
                return HeldKey(place, kept["session_id"])
        return None

    async def release(self, tenant: str, anchor: HeldKey, retry: Retry) -> None:
        """The request was refused, and only success is kept. Raises `StoreUnavailable`, `StoreFull`."""
        await self._run(tenant, anchor.place, retry, anchor.session_id, 0)

    async def _run(self, tenant: str, place: str, retry: Retry, session_id: str, kept_ms: int) -> list[Any]:
        return await self._dispatcher.reply(hold_call(self._keys.session(tenant, place), retry, session_id, kept_ms))


def hold_call(place: SessionKeys, retry: Retry, session_id: str, kept_ms: int) -> ScriptCall:
    """Hold the key at this place for the session; for no time at all: give it free."""
    record = json_text.dumps({"fingerprint": retry.fingerprint, "session_id": session_id})
    return ScriptCall(HOLD, [place.head, place.dedup, place.dedup_age], [retry.field, record, kept_ms])
