"""From stored view to newer view: load what a fold needs, fold the events that are new."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from eventstore.connection import Connection
from eventstore.domain import jsontext
from eventstore.domain.call import Call
from eventstore.domain.events import Event, parse_line
from eventstore.keys import SessionKeys
from eventstore.store import Page, decode_page, read_call
from projections.layout import Layout, SessionModels
from projections.view import SessionView, call_from_shown, empty_view, from_record, named_call
from projections.writes import Change, indexed

FOLD_LINES = 100
FOLD_BYTES = 256 * 1024
"""What is read of a session at once, so that neither this process nor the engine is busy for long with one."""


class ModelsDamaged(Exception):
    """What is stored of a session's models cannot be read; only a rebuild helps."""


@dataclass(frozen=True, slots=True)
class Target:
    """A session to bring up to date in one generation."""

    keys: SessionKeys
    layout: Layout

    @property
    def tenant(self) -> str:
        return self.keys.tenant

    @property
    def name(self) -> tuple[str, str]:
        return self.keys.tenant, self.keys.session_id

    @property
    def models(self) -> SessionModels:
        return self.layout.session(self.keys.tenant, self.keys.session_id)


@dataclass(frozen=True, slots=True)
class Folded:
    """What some new events of a session lead to: nothing, if there are none, or if they cannot be folded (`broken`
    says why). `seq` is that of the stored view, `last_seq` that of the log, `hash` the chain hash of
    the newest event that was folded."""

    target: Target
    seq: int
    last_seq: int
    hash: str = ""
    change: Change | None = None
    broken: Exception | None = None


async def load_views(connection: Connection, targets: Sequence[Target]) -> list[SessionView]:
    """The stored views, in one round trip; a session that has none yet starts empty. Raises `ModelsDamaged`."""
    replies = await connection.commands([("HMGET", target.models.view, "seq", "record") for target in targets])
    return [_decode_view(target, *reply) for target, reply in zip(targets, replies, strict=True)]


def _decode_view(target: Target, seq: bytes | None, record: bytes | None) -> SessionView:
    session_id = target.keys.session_id
    if seq is None or record is None:
        return empty_view(session_id)
    try:
        return from_record(session_id, int(seq), jsontext.read(record))
    except Exception as error:
        raise ModelsDamaged(target.models.view) from error


async def load_calls(connection: Connection, target: Target, names: Sequence[str]) -> list[Call]:
    """Those of these calls that are stored. Raises `ModelsDamaged`."""
    reply: list[bytes | None] = await connection.command("HMGET", target.models.calls, *names)
    return list(_decode_calls(target, names, reply).values())


def _decode_calls(target: Target, names: Sequence[str], reply: Sequence[bytes | None]) -> dict[str, Call]:
    found = zip(names, reply, strict=True)
    try:
        return {name: call_from_shown(jsontext.read(raw)) for name, raw in found if raw is not None}
    except Exception as error:
        raise ModelsDamaged(target.models.calls) from error


@dataclass(frozen=True, slots=True)
class _News:
    """What a reading of a log gave: events and the calls that they name; or why they cannot be understood."""

    last_seq: int
    hash: str = ""
    events: list[Event] = field(default_factory=list[Event])
    named: list[str] = field(default_factory=list[str])
    broken: Exception | None = None


async def fold_new(connection: Connection, targets: Sequence[Target]) -> list[Folded]:
    """Fold some new events into each session: as many as one reading gives. Raises `ModelsDamaged`."""
    views = await load_views(connection, targets)
    news = [await _parse(page) for page in await _load_pages(connection, targets, views)]
    known = await _load_named(connection, targets, news)
    return [
        await _fold(target, view, new, calls)
        for target, view, new, calls in zip(targets, views, news, known, strict=True)
    ]


async def _load_pages(connection: Connection, targets: Sequence[Target], views: Sequence[SessionView]) -> list[Page]:
    pairs = zip(targets, views, strict=True)
    reads = [read_call(target.keys, view.seq + 1, FOLD_LINES, FOLD_BYTES) for target, view in pairs]
    return [decode_page(reply) for reply in await connection.run_each(reads)]


async def _parse(page: Page) -> _News:
    if not page.lines:
        return _News(page.last_seq)
    await asyncio.sleep(0)  # between two sessions, requests come first
    try:
        events = [parse_line(line) for line in page.lines]
        named = {name for event in events if (name := named_call(event)) is not None}
    except Exception as error:
        return _News(page.last_seq, broken=error)
    return _News(page.last_seq, page.hash, events, sorted(named))


async def _load_named(
    connection: Connection, targets: Sequence[Target], news: Sequence[_News]
) -> list[dict[str, Call]]:
    """The stored calls that the events name, in one round trip."""
    wanted = [(target, new.named) for target, new in zip(targets, news, strict=True) if new.named]
    replies = iter(await connection.commands([("HMGET", target.models.calls, *named) for target, named in wanted]))
    pairs = zip(targets, news, strict=True)
    return [_decode_calls(target, new.named, next(replies)) if new.named else {} for target, new in pairs]


async def _fold(target: Target, view: SessionView, new: _News, known: dict[str, Call]) -> Folded:
    """One broken log must not stop the read models of all the others."""
    seq = view.seq
    if not new.events:
        return Folded(target, seq, new.last_seq, broken=new.broken)
    await asyncio.sleep(0)
    change = Change(target.tenant, indexed(view.session), seq, view.steps_total, view, known)
    try:
        for event in new.events:
            view.apply(event, known)
    except Exception as error:
        return Folded(target, seq, new.last_seq, broken=error)
    return Folded(target, seq, new.last_seq, new.hash, change)
