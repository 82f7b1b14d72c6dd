"""One batch of a session: commands decided one after another in memory, to leave as one commit.

Nothing here waits or does I/O. The batch is decided against a head as of one time; if the script finds another head
or another time, the whole batch is decided again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eventstore.commit.records import Commit, Head, Line
from eventstore.domain.commands import Actor, Command, CreateSession, ExpireDue
from eventstore.domain.decider import decide
from eventstore.domain.draft import SYSTEM, Context, Draft, KnownCalls, MissingRecords, Policy, Record
from eventstore.domain.errors import (
    InternalError,
    LaybyError,
    SessionDeleted,
    SessionNotFound,
    TooLarge,
)
from eventstore.domain.events import chain
from eventstore.domain.session import Session
from eventstore.domain.values import json_text
from eventstore.domain.values.ids import random_id
from eventstore.redis_client.clock import monotonic_ms
from eventstore.redis_keys import SessionKeys

log = logging.getLogger("layby.writer")

MAX_EVENTS = 2_000
MAX_BYTES = 8 * 1024 * 1024
"""One commit takes no more than this, except for a single command that is larger by itself."""
MAX_COMMAND_BYTES = 64 * 1024 * 1024
MAX_LAG_MS = 2_000
"""How long a commit may be under way before its times are too old to be called the time of recording."""
MAX_DECIDING_MS = 200
"""How long one batch is decided, during which nothing else runs; what is left goes into the next one."""


class Retry(NamedTuple):
    """An idempotency key as it is stored: `field` names principal, path and key; `fingerprint` the body."""

    field: str
    fingerprint: str


@dataclass(slots=True, eq=False)
class Pending:
    """A command that waits for its answer. `checked` means: a head and its retry record were read since it came."""

    command: Command
    by: Actor
    answer: asyncio.Future[Answer]
    retry: Retry | None = None
    checked: bool = False


class Answer(NamedTuple):
    """What the caller hears. `durability` is what was reached; a replayed answer is that of an earlier request."""

    result: dict[str, Any]
    durability: str = ""
    replayed: bool = False


Outcome = dict[str, Any] | LaybyError


@dataclass(slots=True)
class Batch:
    """What a run of commands comes to."""

    session: Session
    time: int
    before: int | None
    lines: list[Line] = field(default_factory=list[Line])
    changed: dict[str, Record] = field(default_factory=dict[str, Record])
    records: dict[str, str] = field(default_factory=dict[str, str])
    outcomes: list[tuple[Pending, Outcome]] = field(default_factory=list[tuple[Pending, Outcome]])
    renewed: bool = False
    size: int = 0

    @property
    def empty(self) -> bool:
        """Nothing to write: what was decided holds only if the head is still this one."""
        return not (self.lines or self.records or self.renewed)

    def holds_at(self, now: int) -> bool:
        """Whether it could be decided in no other way at this time, if nothing else has changed."""
        return self.before is None or now < self.before

    @property
    def full(self) -> bool:
        return len(self.lines) >= MAX_EVENTS or self.size >= MAX_BYTES

    def take(self, draft: Draft) -> None:
        """Add what a command led to, and chain its events on."""
        lines: list[Line] = []
        hash_ = self.session.chain
        for event in draft.events:
            text = event.line()
            hash_ = chain(hash_, text)
            lines.append(Line(event.seq, event.type, text, hash_))
        size = sum(len(line.text) for line in lines)
        if size > MAX_COMMAND_BYTES:
            raise TooLarge(f"the request would append {size} bytes; at most {MAX_COMMAND_BYTES} go into one commit")
        self.lines += lines
        self.size += size
        self.session = draft.session
        self.session.chain = hash_
        self.changed |= draft.changed
        self.renewed |= draft.renewed

    def look_again(self) -> None:
        """The head was another one: what was looked up of retries before may have changed since."""
        for item, _ in self.outcomes:
            item.checked = item.checked and item.retry is None

    def commit(self, keys: SessionKeys, base: Head, process: str, sums: Mapping[str, str]) -> Commit:
        """The batch as the script takes it; `sums` are those of the call records that it was decided on."""
        before, after = base.session.waiting, self.session.waiting
        marks = {iid: waiting.expires_at for iid, waiting in after.items() if iid not in before}
        return Commit(
            keys=keys,
            base=base,
            revision=random_id(""),
            process=process,
            session=self.session,
            time=self.time,
            before=self.before,
            lines=self.lines,
            calls=self.changed,
            marks=marks,
            unmarks=[iid for iid in before if iid not in after],
            records=self.records,
            replaces=sums,
        )


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides batches for one session, with the operator's limits."""

    policy: Policy

    def decide(self, head: Head, calls: KnownCalls, pending: list[Pending], now: int, slowness: int = 0) -> Batch:
        """Decide as many of the commands as one commit takes, after what is due. `slowness`: how much longer the commit
        may be under way, ms, since deciding takes so long. Raises `MissingRecords`."""
        began = monotonic_ms()
        now = max(now, head.session.time)
        latest = now + MAX_LAG_MS + slowness
        batch = Batch(head.session, now, latest)
        known: KnownCalls = calls
        if head.exists and _is_due(head.session, now):
            draft = self._draft(batch, known, ExpireDue(), SYSTEM)
            batch.take(draft)
            if _is_due(batch.session, now):  # more than one commit takes: these first
                return batch
        if (due := batch.session.next_due) is not None:
            batch.before = min(latest, due)
        for item in pending:
            if batch.full or (batch.outcomes and monotonic_ms() - began >= MAX_DECIDING_MS):
                break
            batch.outcomes.append((item, self._outcome(head, batch, known, item)))
        return batch

    def _outcome(self, head: Head, batch: Batch, calls: KnownCalls, item: Pending) -> Outcome:
        try:
            _refuse_absent(head, batch.session, item.command)
            draft = self._draft(batch, calls, item.command, item.by)
            batch.take(draft)
        except LaybyError as error:
            return error
        except MissingRecords:
            raise
        except Exception:  # a fault of ours, in one command: it must not fail those that share its batch
            log.exception("a %s of session %s failed", type(item.command).__name__, head.session.session_id)
            return InternalError()
        if draft.error is not None:
            return draft.error
        if item.retry:
            kept = {"fingerprint": item.retry.fingerprint, "result": draft.result}
            batch.records[item.retry.field] = json_text.dumps(kept)
        return draft.result

    def _draft(self, batch: Batch, calls: KnownCalls, command: Command, by: Actor) -> Draft:
        known = {**calls, **batch.changed} if batch.changed else calls
        return decide(batch.session, known, command, by, Context(batch.time, random_id, self.policy))


def _is_due(session: Session, now: int) -> bool:
    due = session.next_due
    return due is not None and due <= now


def _refuse_absent(head: Head, session: Session, command: Command) -> None:
    if head.deleted:
        raise SessionDeleted
    if not session.seq and not isinstance(command, CreateSession):
        raise SessionNotFound
