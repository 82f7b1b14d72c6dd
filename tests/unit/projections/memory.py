"""The read models in memory: applies the writes of a projector as Redis would, for tests that need none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventstore.domain.call import Call
from eventstore.domain.events import parse_line
from eventstore.domain.values import json_text
from eventstore.redis_keys import PartitionKeys
from projections.fold.index_writes import Change, Writes, indexed, write_session
from projections.fold.session_view import SessionView, call_from_shown, empty_view, from_record, named_call
from projections.redis_keys import Layout

LAYOUT = Layout(PartitionKeys(0), "g")
TENANT = "default"


class Memory:
    """Keys and values. Like Redis, it keeps no empty list, hash or set."""

    def __init__(self, layout: Layout = LAYOUT) -> None:
        self.layout = layout
        self.keys: dict[str, Any] = {}

    def fold(self, session_id: str, lines: Iterable[bytes], tenant: str = TENANT) -> None:
        """Project the next lines of a session."""
        self.fold_together([(session_id, lines)], tenant)

    def fold_together(self, news: Iterable[tuple[str, Iterable[bytes]]], tenant: str = TENANT) -> None:
        """Project the next lines of some sessions, with one call of the script."""
        writes = Writes()
        for session_id, lines in news:
            self._write(writes, session_id, lines, tenant)
        self.apply(writes)

    def _write(self, writes: Writes, session_id: str, lines: Iterable[bytes], tenant: str) -> None:
        view = self._view(tenant, session_id)
        events = [parse_line(line) for line in lines]
        known = {name: call for name in map(named_call, events) if name and (call := self._call(tenant, view, name))}
        change = Change(tenant, indexed(view.session), view.seq, view.steps_total, view, known)
        for event in events:
            view.apply(event, known)
        write_session(writes, self.layout, change)

    def _view(self, tenant: str, session_id: str) -> SessionView:
        stored = self.keys.get(self.layout.session(tenant, session_id).view)
        if stored is None:
            return empty_view(session_id)
        return from_record(session_id, int(stored["seq"]), json_text.read(stored["record"]))

    def _call(self, tenant: str, view: SessionView, name: str) -> Call | None:
        calls = self.keys.get(self.layout.session(tenant, view.session.session_id).calls, {})
        return call_from_shown(json_text.read(calls[name])) if name in calls else None

    def apply(self, writes: Writes) -> None:
        """As `apply_projection.lua` does."""
        keys, args = writes.script()
        at_logs = 2 + 2 * int(args[0])
        for n in range(2, at_logs, 2):
            stored = self.keys.get(keys[int(args[n]) - 3], {}).get("seq", "")
            assert stored == str(args[n + 1]), "folded on a view that is not the stored one"
        at = at_logs + 3 * int(args[1])
        while at < len(args):
            command, key, size = str(args[at]), keys[int(args[at + 1]) - 3], int(args[at + 2])
            getattr(self, f"_{command.lower()}")(key, *(str(argument) for argument in args[at + 3 : at + 3 + size]))
            at += 3 + size

    def _hset(self, key: str, *pairs: str) -> None:
        self.keys.setdefault(key, {}).update(zip(pairs[::2], pairs[1::2], strict=True))

    def _hdel(self, key: str, *names: str) -> None:
        for name in names:
            self.keys.get(key, {}).pop(name, None)
        self._drop_empty(key)

    def _rpush(self, key: str, *values: str) -> None:
        self.keys.setdefault(key, []).extend(values)

    def _lset(self, key: str, index: str, value: str) -> None:
        self.keys[key][int(index)] = value

    def _zadd(self, key: str, *pairs: str) -> None:
        for score, member in zip(pairs[::2], pairs[1::2], strict=True):
            self.keys.setdefault(key, {})[member] = int(score)

    def _zrem(self, key: str, *members: str) -> None:
        for member in members:
            self.keys.get(key, {}).pop(member, None)
        self._drop_empty(key)

    def _unlink(self, key: str) -> None:
        self.keys.pop(key, None)

    def _drop_empty(self, key: str) -> None:
        if not self.keys.get(key, True):
            del self.keys[key]
