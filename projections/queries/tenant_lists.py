"""What spans sessions: the list of sessions and the inbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eventstore.domain.call import PENDING
from eventstore.domain.session import COMPLETED, FAILED, RUNNING, WAITING
from eventstore.domain.values import json_text
from projections.queries import page_cursor
from projections.queries.index_pages import DocumentRef, IndexPage, IndexPages
from projections.queries.index_query import IndexEntry, IndexQuery
from projections.queries.page_cursor import PageCursor
from projections.redis_keys import Layout

_RETRIES = 4
_CLASSES = {
    RUNNING: b'"status":"running","parked":false',
    "parked": b'"status":"waiting","parked":true',
    "idle": b'"status":"waiting","parked":false',
    COMPLETED: b'"status":"completed","parked":false',
    FAILED: b'"status":"failed","parked":false',
}
"""The classes that sessions are indexed by, and what the row of one holds. Within a string, quotes are escaped."""


class TenantLists:
    """Pages as JSON."""

    def __init__(self, pages: IndexPages) -> None:
        self._pages: IndexPages = pages

    async def sessions(
        self, tenant: str, *, status: str | None, parked: bool | None, agent: str | None, limit: int, cursor: str | None
    ) -> bytes:
        """`{sessions, next_cursor}`, newest activity first."""
        classes = _classes(status, parked)
        if not classes:
            return b'{"sessions":[],"next_cursor":null}'
        kinds = ["all"] if len(classes) == len(_CLASSES) else classes

        def indexes(layout: Layout) -> list[str]:
            return [layout.sessions(tenant, kind, agent) for kind in kinds]

        def place(entry: IndexEntry) -> DocumentRef:
            return DocumentRef(entry.layout, entry.layout.session(tenant, entry.member).view, "row")

        def belongs(row: bytes) -> bool:
            return any(_CLASSES[kind] in row for kind in classes)

        query = IndexQuery(indexes, "desc", limit, page_cursor.decode(cursor, f"sessions of {tenant}"))
        page, rows = await self._shown(query, place, belongs)
        return b'{"sessions":[%b],"next_cursor":%b}' % (b",".join(rows), _following(page, f"sessions of {tenant}"))

    async def inbox(
        self,
        tenant: str,
        *,
        status: str = PENDING,
        tool_name: str | None,
        agent: str | None,
        limit: int,
        cursor: str | None,
    ) -> bytes:
        """`{calls, next_cursor, total}`, nearest deadline first."""

        def indexes(layout: Layout) -> list[str]:
            return [layout.inbox(tenant, status, tool=tool_name, agent=agent)]

        def place(entry: IndexEntry) -> DocumentRef:
            session_id, _, name = entry.member.partition("/")
            return DocumentRef(entry.layout, entry.layout.session(tenant, session_id).calls, name)

        def belongs(call: bytes) -> bool:  # the first member of this name is the call's own
            return call[call.index(b'"status":"') :].startswith(wanted)

        wanted = b'"status":"%b"' % status.encode()
        query = IndexQuery(indexes, "asc", limit, page_cursor.decode(cursor, f"inbox of {tenant}"))
        page, shown = await self._shown(query, place, belongs)
        return b'{"calls":[%b],"next_cursor":%b,"total":%d}' % (
            b",".join(shown),
            _following(page, f"inbox of {tenant}"),
            page.total,
        )

    async def newest_authorization(self, tenant: str, interrupt_id: str) -> str | None:
        """The session whose authorization of this id is open and newest; else the newest of any state."""
        for open_only in (True, False):

            def indexes(layout: Layout, open_only: bool = open_only) -> list[str]:
                return [layout.authorizations(tenant, interrupt_id, open_only=open_only)]

            page = await self._pages.read(IndexQuery(indexes, "desc", 1))
            if page.entries:
                return page.entries[0].member
        return None

    async def _shown(
        self, query: IndexQuery, place: Callable[[IndexEntry], DocumentRef], belongs: Callable[[bytes], bool]
    ) -> tuple[IndexPage, Sequence[bytes]]:
        """A page and its documents. What no longer belongs there when its document is read is left out."""
        page, documents = await self._documents(query, place)
        for _ in range(_RETRIES):
            if None not in documents:  # else these sessions were deleted just now; or the generation was cleared away
                break
            page, documents = await self._documents(query, place)
        return page, [document for document in documents if document is not None and belongs(document)]

    async def _documents(
        self, query: IndexQuery, place: Callable[[IndexEntry], DocumentRef]
    ) -> tuple[IndexPage, Sequence[bytes | None]]:
        page = await self._pages.read(query)
        documents = await self._pages.documents([place(entry) for entry in page.entries])
        return page.cut(len(documents)), documents


def _classes(status: str | None, parked: bool | None) -> list[str]:
    """The classes of session that a filter names."""
    wanted = list(_CLASSES) if status is None else ["parked", "idle"] if status == WAITING else [status]
    return [kind for kind in wanted if parked is None or parked == (kind == "parked")]


def _following(page: IndexPage, kind: str) -> bytes:
    last = page.entries[-1] if page.more else None
    return json_text.dumps(last and PageCursor(kind, last.score, last.member).encode()).encode()
