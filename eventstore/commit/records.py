"""Sessions in Redis: what is read before a decision, and how a commit is put. The script compares and applies."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, NamedTuple

from eventstore.domain import call as calls
from eventstore.domain import session as sessions
from eventstore.domain import steps
from eventstore.domain.call import Call
from eventstore.domain.draft import Known, Record
from eventstore.domain.errors import InvalidSnapshot, SessionDeleted, SessionNotFound, StoreUnavailable
from eventstore.domain.session import Session
from eventstore.domain.values import json_text
from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import Argument, ScriptCall
from eventstore.redis_keys import SessionKeys

COMMIT = scripts.load("eventstore", "commit")
LOAD = scripts.load("eventstore", "load_session", writes=False)
DELETE = scripts.load("eventstore", "delete_session", urgent=True)
READ = scripts.load("eventstore", "read_log", writes=False)
CONFIRM = scripts.load("eventstore", "touch_head")

log = logging.getLogger("layby.store")

RETRY_KEPT_MS = 24 * 3_600_000
WRITERS_KEPT = 8
DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Head:
    """A session as it is stored. `revision` changes with every commit; `writers` holds the newest revision of each of
    the last processes that wrote, so that a process whose answer got lost can tell whether its commit took place.
    Of a deleted session only the time of its creation is left."""

    revision: str = ""
    session: Session = field(default_factory=Session)
    writers: dict[str, str] = field(default_factory=dict[str, str])
    created_at: int = 0

    @property
    def exists(self) -> bool:
        return self.revision not in ("", DELETED)

    @property
    def deleted(self) -> bool:
        return self.revision == DELETED


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a command is judged by, as of `now` (ms, the engine's clock). `sums` are those of the calls' records."""

    now: int
    head: Head
    records: dict[str, str]
    calls: dict[str, Known]
    sums: dict[str, str]


class Line(NamedTuple):
    """A stored event: its exact line and its chain hash."""

    seq: int
    type: str
    text: bytes
    hash: str


@dataclass(slots=True)
class Commit:
    """Everything that one script call changes. Times are in milliseconds. `replaces` holds the sums of the call
    records that it was decided on; `texts` are the new ones."""

    keys: SessionKeys
    base: Head
    revision: str
    process: str
    session: Session
    time: int
    before: int | None
    lines: list[Line]
    calls: dict[str, Record]
    marks: dict[str, int]
    unmarks: list[str]
    records: dict[str, str]
    replaces: Mapping[str, str] = field(default_factory=dict[str, str])
    texts: dict[str, str] = field(init=False)
    head: Head = field(init=False)
    """As it stands afterwards."""

    def __post_init__(self) -> None:
        self.texts = {iid: json_text.dumps(_record(call)) for iid, call in self.calls.items()}
        others = {name: revision for name, revision in self.base.writers.items() if name != self.process}
        if len(others) >= WRITERS_KEPT:
            others = dict(list(others.items())[1 - WRITERS_KEPT :])
        self.head = Head(self.revision, self.session, {**others, self.process: self.revision})

    @property
    def sums(self) -> dict[str, str]:
        """Those of the records that it writes."""
        return {iid: record_sum(text.encode()) for iid, text in self.texts.items()}

    def script_call(self, feed_keep: int) -> ScriptCall:
        keys, due = self.keys, self.session.next_due
        markers = [keys.due(interrupt_id) for interrupt_id in (*self.marks, *self.unmarks)]
        return ScriptCall(
            COMMIT, [*keys.fixed, *keys.partition.indexes, *markers], [*self._header(due, feed_keep), *self._body()]
        )

    def _header(self, due: int | None, feed_keep: int) -> list[Argument]:
        first = self.base.session.seq + 1
        types = " ".join(sorted({line.type for line in self.lines}))
        return [
            *(self.base.revision, self.revision, self.time, "" if self.before is None else self.before),
            *(self.session.status, encode_head(self.head), "" if due is None else due, self.keys.member),
            *(self.keys.tenant, self.keys.session_id, types, feed_keep, first, len(self.lines)),
            *(len(self.calls), len(self.records), len(self.marks), RETRY_KEPT_MS),
        ]

    def _body(self) -> list[Argument]:
        lines = [part for _, _, text, hash_ in self.lines for part in (text, hash_)]
        changed = (part for i, text in self.texts.items() for part in (i, text, self.replaces.get(i, "")))
        kept = (part for pair in self.records.items() for part in pair)
        return [*lines, *changed, *kept, *self.marks.values()]


def encode_head(head: Head) -> str:
    return json_text.dumps({**sessions.to_record(head.session), "writers": head.writers})


def decode_head(session_id: str, reply: Sequence[Any]) -> Head:
    """The head from its stored fields: revision, seq, time, status, state, due, created."""
    revision, seq, time, _, state = reply[:5]
    if revision is None:
        return Head()
    if revision == DELETED.encode():
        return Head(DELETED, created_at=int(reply[6] or 0) if len(reply) > 6 else 0)
    record = json_text.read(state)
    return Head(revision.decode(), sessions.from_record(session_id, int(seq), int(time), record), record["writers"])


def load_call(keys: SessionKeys, names: Sequence[str] = (), retry_fields: Sequence[str] = ()) -> ScriptCall:
    read = [keys.head, keys.calls, keys.dedup, keys.dedup_age]
    return ScriptCall(LOAD, read, [len(retry_fields), *retry_fields, *names])


def decode_loaded(
    session_id: str, reply: Sequence[Any], names: Sequence[str] = (), retry_fields: Sequence[str] = ()
) -> Loaded:
    """The reply to `load_call` with the same names."""
    now, head, *found = reply
    kept, records = found[: len(retry_fields)], found[len(retry_fields) :]
    retries = {name: raw.decode() for name, raw in zip(retry_fields, kept, strict=True) if raw is not None}
    known = {name: decode_call(raw) for name, raw in zip(names, records, strict=True)}
    sums = {name: record_sum(raw) for name, raw in zip(names, records, strict=True) if raw is not None}
    return Loaded(int(now), decode_head(session_id, head), retries, known, sums)


def record_sum(record: bytes) -> str:
    """What a commit knows a stored record by (SHA-1, as the script computes it), so that it replaces no other."""
    return sha1(record, usedforsecurity=False).hexdigest()


def _record(record: Record) -> dict[str, Any]:
    return calls.to_record(record) if isinstance(record, Call) else steps.to_record(record)


def decode_call(raw: bytes | None) -> Known:
    """A stored call, or a step that is over; a record that is not sound comes back as the problem that its readers
    hear."""
    if raw is None:
        return None
    try:
        record = json_text.read(raw)
        return steps.from_record(record) or calls.from_record(record)
    except InvalidSnapshot as error:
        return error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return InvalidSnapshot(f"the stored record of this call is damaged: {type(error).__name__}")


def delete_call(keys: SessionKeys, head: Head, feed_keep: int, token: str) -> ScriptCall:
    markers = [keys.due(interrupt_id) for interrupt_id in head.session.waiting]
    names = [keys.member, keys.tenant, keys.session_id]
    args = [head.revision, *names, feed_keep, head.session.created_at, token]
    return ScriptCall(DELETE, [*keys.fixed, *keys.partition.indexes, *markers], args)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Stored lines from `first` on (downwards if the read was descending), and the session as of the same moment.
    `before` and `hash` are the chain hashes of the event before the first line, and of the last line, where the read
    was ascending and there is one."""

    now: int
    revision: str
    status: str
    last_seq: int
    due: int | None
    first: int
    lines: list[bytes]
    before: str = ""
    hash: str = ""

    @property
    def exists(self) -> bool:
        return self.revision not in ("", DELETED)

    @property
    def deleted(self) -> bool:
        return self.revision == DELETED

    @property
    def ended(self) -> bool:
        return self.status in (sessions.COMPLETED, sessions.FAILED)


def read_call(keys: SessionKeys, start: int, limit: int, max_bytes: int, *, descending: bool = False) -> ScriptCall:
    order = "desc" if descending else "asc"
    return ScriptCall(READ, [keys.head, keys.events], [start, order, limit, max_bytes])


def decode_page(reply: Sequence[Any]) -> LogPage:
    now, revision, status, seq, due, first, before, last, *lines = reply
    return LogPage(
        int(now),
        (revision or b"").decode(),
        (status or b"").decode(),
        int(seq or 0),
        int(due) if due else None,
        int(first),
        lines,
        before.decode(errors="replace"),
        last.decode(errors="replace"),
    )


def refuse_absent(revision: str) -> None:
    """Raises `SessionNotFound`, `SessionDeleted` where no session stands behind this revision of a head."""
    if revision == DELETED:
        raise SessionDeleted
    if not revision:
        raise SessionNotFound


def confirm_call(keys: SessionKeys) -> ScriptCall:
    """A write that changes nothing, for an engine to confirm with all that came before it."""
    return ScriptCall(CONFIRM, [keys.head], [])


def lost(keys: SessionKeys, seq: int) -> StoreUnavailable:
    """The problem of a session whose log does not hold what its head promises; the operator hears more."""
    name = keys.session_id
    log.error(
        "session %s: log and head do not agree at %d; run `layby verify %s` and restore a backup", name, seq, name
    )
    return StoreUnavailable("the store has lost a part of this session's log")
