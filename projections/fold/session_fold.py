"""From stored view to newer view: load what a fold needs, fold the events that are new."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from eventstore.commit.records import LogPage, decode_page, read_call
from eventstore.domain.call import Call
from eventstore.domain.events import Event, parse_line
from eventstore.domain.values import json_text
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import SessionKeys
from projections.fold.index_writes import Change, indexed
from projections.fold.session_view import SessionView, call_from_shown, empty_view, from_record, named_call
from projections.redis_keys import Layout, SessionModels

FOLD_LINES = 100
FOLD_BYTES = 256 * 1024
"""What is read of a session at once, so that neither this process nor the engine is busy for long with one."""


class ModelsDamaged(Exception):
    """What is stored of a session's models cannot be read; only a rebuild helps."""


@dataclass(frozen=True, slots=True)
class Target:
    """A session to bring up to date in one generation: up to event `goal`, which is the last of a commit. `commits`
    are those that are known of what comes before, by their first and last events, in order."""

    keys: SessionKeys
    layout: Layout
    goal: int = 0
    commits: Sequence[tuple[int, int]] = ()

    @property
    def tenant(self) -> str:
        return self.keys.tenant

    @property
    def name(self) -> tuple[str, str]:
        return self.keys.tenant, self.keys.session_id

    @property
    def models(self) -> SessionModels:
        return self.layout.session(self.keys.tenant, self.keys.session_id)

    def stop(self, seq: int, most: int) -> int:
        """Where a fold that begins after event `seq` has to end: so many events on, or fewer, but never within a
        commit. Of one that is larger, all of it."""
        reach = max(seq, min(self.goal, seq + most))
        for first, last in self.commits:
            if first <= reach < last:
                return first - 1 if first - 1 > seq else last
        return reach


@dataclass(frozen=True, slots=True)
class Folded:
    """What some new events of a session lead to: nothing, if there are none, or if they cannot be folded (`broken`
    says why). `seq` is that of the stored view, `hash` the chain hash of the newest event that was folded."""

    target: Target
    seq: int
    hash: str = ""
    change: Change | None = None
    broken: Exception | None = None


async def load_views(connection: RedisClient, targets: Sequence[Target]) -> list[SessionView]:
    """The stored views, in one round trip; a session that has none yet starts empty. Raises `ModelsDamaged`."""
    replies = await connection.commands([("HMGET", target.models.view, "seq", "record") for target in targets])
    return [_decode_view(target, *reply) for target, reply in zip(targets, replies, strict=True)]


def _decode_view(target: Target, seq: bytes | None, record: bytes | None) -> SessionView:
    session_id = target.keys.session_id
    if seq is None or record is None:
        return empty_view(session_id)
    try:
        return from_record(session_id, int(seq), json_text.read(record))
    except Exception as error:
        raise ModelsDamaged(target.models.view) from error


async def load_calls(connection: RedisClient, target: Target, names: Sequence[str]) -> list[Call]:
    """Those of these calls that are stored. Raises `ModelsDamaged`."""
    reply: list[bytes | None] = await connection.command("HMGET", target.models.calls, *names)
    return list(_decode_calls(target, names, reply).values())


def _decode_calls(target: Target, names: Sequence[str], reply: Sequence[bytes | None]) -> dict[str, Call]:
    found = zip(names, reply, strict=True)
    try:
        return {name: call_from_shown(json_text.read(raw)) for name, raw in found if raw is not None}
    except Exception as error:
        raise ModelsDamaged(target.models.calls) from error


@dataclass(frozen=True, slots=True)
class _News:
    """What a reading of a log gave: events and the calls that they name; or why they cannot be understood."""

    hash: str = ""
    events: list[Event] = field(default_factory=list[Event])
    named: list[str] = field(default_factory=list[str])
    broken: Exception | None = None


async def fold_new(connection: RedisClient, targets: Sequence[Target]) -> list[Folded]:
    """Fold some new events into each session: about as many as one reading gives, and whole commits. Raises
    `ModelsDamaged`."""
    views = await load_views(connection, targets)
    news = [await _parse(*read) for read in await _read_logs(connection, targets, views)]
    known = await _load_named(connection, targets, news)
    return [
        await _fold(target, view, new, calls)
        for target, view, new, calls in zip(targets, views, news, known, strict=True)
    ]


async def _read_logs(
    connection: RedisClient, targets: Sequence[Target], views: Sequence[SessionView]
) -> list[tuple[list[bytes], str]]:
    """New lines of each log, and the chain hash of the last of them; in one round trip, but for odd ones."""
    pairs = [(target, view.seq) for target, view in zip(targets, views, strict=True)]
    behind = [(target, seq) for target, seq in pairs if seq < target.goal]
    replies = await connection.run_each([_read(target, seq, FOLD_LINES) for target, seq in behind])
    pages = {target.name: decode_page(reply) for (target, _), reply in zip(behind, replies, strict=True)}
    return [
        await _whole_commits(connection, target, seq, pages[target.name]) if target.name in pages else ([], "")
        for target, seq in pairs
    ]


def _read(target: Target, seq: int, most: int) -> ScriptCall:
    return read_call(target.keys, seq + 1, min(FOLD_LINES, target.stop(seq, most) - seq), FOLD_BYTES)


async def _whole_commits(connection: RedisClient, target: Target, seq: int, page: LogPage) -> tuple[list[bytes], str]:
    """What was read, brought to the end of a commit: read on where the first was not read to its end, read less where
    another was begun. Nothing where the log ends within one."""
    lines = page.lines
    while lines and (end := target.stop(seq, len(lines))) != seq + len(lines):
        if end < seq + len(lines):
            lines = []
        start = seq + len(lines)
        limit = min(FOLD_LINES, end - start)
        page = decode_page(await connection.run(read_call(target.keys, start + 1, limit, FOLD_BYTES)))
        lines = lines + page.lines if page.lines else []
    return lines, page.hash


async def _parse(lines: list[bytes], hash_: str) -> _News:
    events, named = list[Event](), set[str]()
    for start in range(0, len(lines), FOLD_LINES):
        await asyncio.sleep(0)  # between two sessions, and within a large commit, requests come first
        try:
            some = [parse_line(line) for line in lines[start : start + FOLD_LINES]]
            named |= {name for event in some if (name := named_call(event)) is not None}
        except Exception as error:
            return _News(broken=error)
        events += some
    return _News(hash_, events, sorted(named))


async def _load_named(
    connection: RedisClient, targets: Sequence[Target], news: Sequence[_News]
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
        return Folded(target, seq, broken=new.broken)
    await asyncio.sleep(0)
    change = Change(target.tenant, indexed(view.session), seq, view.steps_total, view, known)
    try:
        for event in new.events:
            view.apply(event, known)
    except Exception as error:
        return Folded(target, seq, broken=error)
    return Folded(target, seq, new.hash, change)
