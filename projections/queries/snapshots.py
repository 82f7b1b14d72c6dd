"""The snapshot of one session: now, or as of any point of its past. A function of the events alone."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from eventstore.domain import call as calls
from eventstore.domain.call import Call
from eventstore.domain.errors import NoSuchPoint, StoreUnavailable
from eventstore.domain.events import parse_line
from eventstore.domain.values import json_text, timestamps
from eventstore.event_store import EventStore
from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import SessionKeys
from projections import redis_keys
from projections.fold.session_view import (
    SHOWN,
    SessionView,
    call_from_shown,
    empty_view,
    from_record,
    named_call,
    summary,
)
from projections.queries.session_reader import SessionReader, broken
from projections.redis_keys import Layout

log = logging.getLogger("layby.projections")

SNAPSHOT = scripts.load("projections", "read_snapshot", writes=False)
PAGE_LINES = 500


@dataclass(slots=True)
class Stored:
    """What is stored of a session's snapshot: the view, and the encoded steps and calls around it."""

    view: SessionView
    steps: list[bytes] = field(default_factory=list[bytes])
    calls: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def fold(self, lines: Iterable[bytes]) -> None:
        """Take newer events in."""
        events = [parse_line(line) for line in lines]
        names = {name for event in events if (name := named_call(event)) and name in self.calls}
        known = {name: call_from_shown(json_text.read(self.calls[name])) for name in names}
        before = self.view.steps_total
        for event in events:
            self.view.apply(event, known)
        self._take_changes(before)

    def _take_changes(self, steps_before: int) -> None:
        view, first = self.view, steps_before - len(self.steps)
        for number, step in view.steps.items():
            text = json_text.dumps(step).encode()
            if number > steps_before:
                self.steps.append(text)
            else:
                self.steps[number - 1 - first] = text
        for name, call in view.calls.items():
            self.calls[name] = encode_call(view, call)
        view.forget_changes()

    def encode(self) -> bytes:
        """The snapshot as JSON: stored bytes are joined, not parsed."""
        view = self.view
        head = json_text.dumps(summary(view)).encode()[:-1]
        shown = b",".join(self._shown_calls())
        metadata = json_text.dumps(view.metadata).encode()
        return b'%b,"steps":[%b],"steps_total":%d,"calls":[%b],"calls_total":%d,"metadata":%b}' % (
            *(head, b",".join(self.steps[-SHOWN:]), view.steps_total, shown, view.calls_total, metadata),
        )

    def _shown_calls(self) -> list[bytes]:
        """All open calls and the newest others, in the order they were asked."""
        waiting, others, shown = self.view.session.waiting, 0, list[bytes]()
        for name in reversed(self.calls):
            if name not in waiting:
                others += 1
                if others > SHOWN:
                    continue
            shown.append(self.calls[name])
        return shown[::-1]


def encode_call(view: SessionView, call: Call) -> bytes:
    return json_text.dumps(calls.render(call, view.session.session_id)).encode()


class Snapshots:
    """Answers for single sessions."""

    def __init__(self, store: EventStore, reader: SessionReader) -> None:
        self._store: EventStore = store
        self._reader: SessionReader = reader

    async def now(self, tenant: str, session_id: str) -> tuple[int, bytes]:
        """The seq and the snapshot as JSON, every acknowledged event included."""
        keys = self._store.session_keys(tenant, session_id)

        def call(layout: Layout) -> ScriptCall:
            models = layout.session(tenant, session_id)
            names = [
                keys.head,
                redis_keys.current(layout.partition),
                models.view,
                models.steps,
                models.calls,
                models.order,
            ]
            return ScriptCall(SNAPSHOT, names, [SHOWN])

        last_seq, (view, steps, calls_) = await self._reader.read(keys, call)
        stored = _decoded(keys, view, steps, calls_)
        while stored.view.seq < last_seq:
            # no further than the head that was read: what was appended since may end within a commit
            lines = min(PAGE_LINES, last_seq - stored.view.seq)
            page = await self._store.page(tenant, session_id, stored.view.seq + 1, lines)
            if not page.lines:
                raise StoreUnavailable("the store has just lost a part of this session; try again")
            _fold(keys, stored, page.lines)
        return stored.view.seq, stored.encode()

    async def past(self, tenant: str, session_id: str, *, at: int | None, at_time: int | None) -> tuple[int, bytes]:
        """The same as of a point, folded from the first event. Raises `NoSuchPoint` too."""
        keys, stored = self._store.session_keys(tenant, session_id), Stored(empty_view(session_id))
        while True:
            seq = stored.view.seq
            page = await self._store.page(tenant, session_id, seq + 1, PAGE_LINES)
            if at is not None and not 1 <= at <= page.last_seq:
                raise NoSuchPoint(f"the session has events 1 to {page.last_seq}, and none at {at}")
            lines = page.lines if at is None else page.lines[: at - seq]
            if at_time is not None:
                lines = lines[: bisect_right(lines, at_time, key=_time)]
            _fold(keys, stored, lines)
            if len(lines) < len(page.lines) or stored.view.seq >= page.last_seq:
                break
        if not stored.view.seq:
            raise NoSuchPoint("the session began after that time")
        return stored.view.seq, stored.encode()


def _fold(keys: SessionKeys, stored: Stored, lines: list[bytes]) -> None:
    try:
        stored.fold(lines)
    except Exception as error:
        raise broken(keys) from error


def _decoded(keys: SessionKeys, view: list[Any], steps: list[bytes], pairs: list[bytes]) -> Stored:
    """What is stored; nothing, where that cannot be read: then the log is folded from its first event."""
    try:
        return _decode(keys.session_id, view, steps, pairs)
    except Exception:
        log.exception("session %s: its stored view cannot be read; run `layby rebuild`", keys.session_id)
        return Stored(empty_view(keys.session_id))


def _decode(session_id: str, view: list[Any], steps: list[bytes], pairs: list[bytes]) -> Stored:
    if view[0] is None:
        return Stored(empty_view(session_id))
    named = zip(pairs[::2], pairs[1::2], strict=True)
    known = from_record(session_id, int(view[0]), json_text.read(view[1]))
    return Stored(known, steps, {name.decode(): call for name, call in named})


def _time(line: bytes) -> int:
    """When the event of a line was recorded, without parsing the rest of it; a user's own fields come later."""
    start = line.index(b'"time":"') + 8
    return timestamps.parse(line[start : line.index(b'"', start)].decode())
