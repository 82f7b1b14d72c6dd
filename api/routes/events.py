"""Pages of events. Stored lines are joined, never parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response

from api.http import query_parameters
from api.http.content_negotiation import prefers
from api.http.headers import header
from api.http.json_schema import ref
from api.http.query_parameters import Types
from api.requests.bodies import JSON_TYPE
from api.requests.descriptions import lines, reply
from api.requests.endpoint import Endpoint, Operation, Received
from api.requests.shared_parameters import TYPES
from api.routes.publish import EVENTS
from api.services import Services
from api.streaming.encoders import NDJSON_TYPE
from eventstore.commit.records import LogPage
from eventstore.event_store import EventStore
from eventstore.log.range_reader import FIRST_LINES

LIMIT_DEFAULT: Final = 1_000
"""How many events a page has, unless its reader asks for another number."""
LIMIT_MAX: Final = 10_000
"""The most events of a page, where they are small."""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a page, unless its first event is larger: a server holds the whole of it."""
SCANNED_LINES: Final = 20_000
SCANNED_BYTES: Final = 16 * 1024 * 1024
"""A filtered page ends after looking at so much, whatever it has found; its reader goes on from there."""
SCAN_CHUNK: Final = 1_000


FROM: Final = query_parameters.position("from", "The seq to start at; 1 unless given.", component="from_seq")
LIMIT: Final = query_parameters.whole(
    "limit",
    "How many a page has at most; bytes may end it earlier.",
    least=1,
    most=LIMIT_MAX,
    default=LIMIT_DEFAULT,
    component="event_limit",
)
ORDER: Final = query_parameters.word("order", "`desc` starts at the newest, or at `from`.", ("asc", "desc"), "asc")


async def read(services: Services, received: Received) -> Response:
    name, limit = received.session_id, received.query(LIMIT)
    start, step = received.query(FROM), -1 if received.query(ORDER) == "desc" else 1
    page = _Collected(received.query(TYPES), limit, step)
    await page.fill(services.store, received.principal.tenant, name, start)
    wants_json = prefers(header(received.request, "Accept") or "", JSON_TYPE, NDJSON_TYPE)
    return _as_json(page) if wants_json else _as_lines(page)


@dataclass(slots=True)
class _Collected:
    """One page of an answer, made of as many reads as it takes."""

    types: Types
    limit: int
    step: int
    lines: list[bytes] = field(default_factory=list[bytes])
    at: int = 0
    last_seq: int = 0
    size: int = 0
    scanned: int = 0
    scanned_bytes: int = 0

    @property
    def next_from(self) -> int | None:
        """Where the next page begins, if there is more."""
        return self.at if 1 <= self.at <= self.last_seq else None

    @property
    def full(self) -> bool:
        scanned = self.scanned >= SCANNED_LINES or self.scanned_bytes >= SCANNED_BYTES
        return len(self.lines) >= self.limit or scanned

    async def fill(self, store: EventStore, tenant: str, name: str, start: int | None) -> None:
        # 0 stands for the end, the place to begin at when reading downwards.
        self.at = start if start is not None else 1 if self.step == 1 else 0
        page = await self._first(store, tenant, name)
        while self._take(page) and not self.full and self.next_from is not None and page.lines:
            if self.step == 1:
                page = await store.page_after(tenant, name, page, self._wanted)
            else:
                page = await store.page(tenant, name, self.at, self._wanted, descending=True)

    async def _first(self, store: EventStore, tenant: str, name: str) -> LogPage:
        """The beginning. It tells how to read on forwards; backwards there is one way."""
        if self.step == 1:
            return await store.page(tenant, name, self.at, min(self._wanted, FIRST_LINES))
        return await store.page(tenant, name, self.at, self._wanted, descending=True)

    @property
    def _wanted(self) -> int:
        """How many lines to ask for."""
        left = self.limit - len(self.lines)
        return left if self.types.all else max(left, SCAN_CHUNK)

    def _take(self, page: LogPage) -> bool:
        """Add the lines that are wanted. False if the page is full before they are all in."""
        self.at, self.last_seq = page.first, page.last_seq
        size = sum(map(len, page.lines))
        if self.types.all and self.size + size <= PAGE_BYTES:  # no more were asked for than are wanted
            self.lines += page.lines
            self.at += self.step * len(page.lines)
            self.size += size
            return True
        for line in page.lines:
            if self.full:
                return False
            if self.types.wants_line(line):
                if self.lines and self.size + len(line) > PAGE_BYTES:
                    return False
                self.lines.append(line)
                self.size += len(line)
            self.at += self.step
            self.scanned += 1
            self.scanned_bytes += len(line)
        return True


def _headers(page: _Collected) -> dict[str, str]:
    more = {} if page.next_from is None else {"Layby-Next-From": str(page.next_from)}
    return {"Layby-Last-Seq": str(page.last_seq), "Vary": "Accept", **more}


def _as_lines(page: _Collected) -> Response:
    body = b"\n".join([*page.lines, b""]) if page.lines else b""
    return Response(body, 200, _headers(page), NDJSON_TYPE)


def _as_json(page: _Collected) -> Response:
    following = "null" if page.next_from is None else str(page.next_from)
    rest = b'],"next_from":%s,"last_seq":%d}' % (following.encode(), page.last_seq)
    return Response(b'{"events":[' + b",".join(page.lines) + rest, 200, _headers(page), JSON_TYPE)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        EVENTS,
        read,
        Operation("readEvents", "events", "Read a page of events", f"NDJSON, unless `Accept` asks for `{JSON_TYPE}`."),
        scope="read",
        query=(FROM, LIMIT, TYPES, ORDER),
        answers={
            200: reply(
                "One page.",
                {NDJSON_TYPE: lines("Event", "One event a line."), JSON_TYPE: {"schema": ref("EventPage")}},
                "Layby-Last-Seq",
                "Layby-Next-From",
                "Vary",
            )
        },
    ),
)
