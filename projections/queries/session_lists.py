"""Pages of what one session has: its steps, its calls."""

from __future__ import annotations

from eventstore.domain.values import json_text
from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import SessionKeys
from projections import redis_keys
from projections.projector.background import BackgroundProjectors
from projections.queries import page_cursor
from projections.queries.index_pages import PAGE_BYTES
from projections.queries.page_cursor import PageCursor
from projections.queries.session_reader import SessionReader, broken
from projections.redis_keys import Layout

_ATTEMPTS = 4
PART = scripts.load("projections", "read_session_list", writes=False)


class SessionLists:
    """Pages as JSON, the oldest first."""

    def __init__(self, reader: SessionReader, upkeep: BackgroundProjectors) -> None:
        self._reader: SessionReader = reader
        self._upkeep: BackgroundProjectors = upkeep

    async def page(self, kind: str, keys: SessionKeys, limit: int, cursor: str | None) -> bytes:
        """`{<kind>, next_cursor}`; `kind` is `steps` or `calls`."""
        own = f"{kind} of {keys.tenant}"
        found = page_cursor.decode(cursor, own)
        start = max(0, found.score) if found else 0
        documents = await self._current(kind, keys, start, start + limit)
        shown = [document for document in documents[:limit] if document]  # one that is empty stands for the rest
        following = PageCursor(own, start + len(shown)).encode() if len(documents) > len(shown) else None
        return b'{"%b":[%b],"next_cursor":%b}' % (kind.encode(), b",".join(shown), json_text.dumps(following).encode())

    async def _current(self, kind: str, keys: SessionKeys, first: int, last: int) -> list[bytes]:
        """The stored documents, once they hold every event that the session had at the beginning."""

        def call(layout: Layout) -> ScriptCall:
            models = layout.session(keys.tenant, keys.session_id)
            own = [models.steps] if kind == "steps" else [models.order, models.calls]
            read = [keys.head, redis_keys.current(layout.partition), models.view, *own]
            return ScriptCall(PART, read, [first, last, PAGE_BYTES])

        goal: int | None = None
        for _ in range(_ATTEMPTS):
            last_seq, (seq, *documents) = await self._reader.read(keys, call)
            goal = last_seq if goal is None else goal
            if int(seq or 0) >= goal:
                return documents
            await self._upkeep.catch_up(keys.partition.number)
        raise broken(keys)
