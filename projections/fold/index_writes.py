"""What a change of a session means for the read models: pure, a list of writes for `apply_projection.lua`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from eventstore.domain import call as calls
from eventstore.domain.call import PENDING, Call
from eventstore.domain.session import WAITING, Session
from eventstore.domain.values import json_text
from eventstore.redis_client.scripts import Argument
from projections.fold.session_view import SessionView, row, to_record
from projections.redis_keys import Layout

ARGUMENTS_AT_ONCE = 1_000
"""Arguments of one command: Lua unpacks no more than 8,000. Even, since some come in pairs."""


@dataclass(slots=True)
class Writes:
    """Writes, and the views that they build on. Those of one kind to one key become one command of many arguments; so
    their order counts within such a group alone, and one write must not depend on another's."""

    groups: dict[tuple[str, str], list[Argument]] = field(default_factory=dict[tuple[str, str], list[Argument]])
    views: dict[str, int] = field(default_factory=dict[str, int])
    logs: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    count: int = 0

    def add(self, command: str, key: str, *arguments: Argument) -> None:
        self.groups.setdefault((command, key), []).extend(arguments)
        self.count += 1

    def expect(self, view: str, seq: int) -> None:
        """These writes hold only if the stored view still is at this seq (0: not there)."""
        self.views[view] = seq

    def rests_on(self, log: str, seq: int, hash_: str) -> None:
        """These writes hold only if this event of the log still has this hash."""
        self.logs[log] = (seq, hash_)

    def script(self) -> tuple[list[str], list[Argument]]:
        """The keys, each once, and the arguments that name them by number; two other keys stand before them."""
        keys = list(dict.fromkeys([*self.views, *self.logs, *(key for _, key in self.groups)]))
        numbers = {key: number for number, key in enumerate(keys, 3)}
        args: list[Argument] = [len(self.views), len(self.logs)]
        for view, seq in self.views.items():
            args += [numbers[view], seq or ""]
        for log, (seq, hash_) in self.logs.items():
            args += [numbers[log], f"{seq}-0", hash_]
        for (command, key), arguments in self.groups.items():
            for start in range(0, max(1, len(arguments)), ARGUMENTS_AT_ONCE):
                some = arguments[start : start + ARGUMENTS_AT_ONCE]
                args += [command, numbers[key], len(some), *some]
        return keys, args


@dataclass(frozen=True, slots=True)
class Indexed:
    """Under what a session stands in the list of sessions; None for one that is not there yet."""

    kind: str
    agent: str | None


def indexed(session: Session) -> Indexed | None:
    if not session.seq:
        return None
    kind = session.status
    if kind == WAITING:
        kind = "parked" if session.parked else "idle"
    return Indexed(kind, session.agent)


@dataclass(frozen=True, slots=True)
class Change:
    """A session before and after some events. `known` holds the calls as they were stored before."""

    tenant: str
    before: Indexed | None
    seq_before: int
    steps_before: int
    view: SessionView
    known: Mapping[str, Call]


def write_session(writes: Writes, layout: Layout, change: Change) -> None:
    """The view, its steps and calls, and every index that the session and its calls stand in."""
    view, tenant = change.view, change.tenant
    models = layout.session(tenant, view.session.session_id)
    writes.expect(models.view, change.seq_before)
    fields = {"seq": view.seq, "record": json_text.dumps(to_record(view)), "row": json_text.dumps(row(view))}
    open_calls = json_text.dumps(list(view.session.waiting)) if view.session.waiting else ""
    writes.add("HSET", models.view, *_flat(fields), "open", open_calls)
    for number, step in view.steps.items():
        if number > change.steps_before:
            writes.add("RPUSH", models.steps, json_text.dumps(step))
        else:
            writes.add("LSET", models.steps, number - 1, json_text.dumps(step))
    for name in view.asked:
        writes.add("RPUSH", models.order, name)
    for name, call in view.calls.items():
        shown = calls.render(call, view.session.session_id)
        writes.add("HSET", models.calls, name, json_text.dumps(shown))
        _index_call(writes, layout, change, call)
    _index_session(writes, layout, change)


def _index_session(writes: Writes, layout: Layout, change: Change) -> None:
    session = change.view.session
    now = indexed(session)
    keys = _session_keys(layout, change.tenant, now) if now else []
    for key in _session_keys(layout, change.tenant, change.before) if change.before else []:
        if key not in keys:
            writes.add("ZREM", key, session.session_id)
    for key in keys:
        writes.add("ZADD", key, session.time, session.session_id)


def _session_keys(layout: Layout, tenant: str, place: Indexed) -> list[str]:
    agents = [None] if place.agent is None else [None, place.agent]
    return [layout.sessions(tenant, kind, agent) for kind in ("all", place.kind) for agent in agents]


def _index_call(writes: Writes, layout: Layout, change: Change, call: Call) -> None:
    session = change.view.session
    before = change.known.get(call.interrupt_id)
    if before and before.status == call.status:
        return
    now = _call_places(layout, change.tenant, session, call)
    if before:  # never out of an index and into it again: writes of two kinds have no order among them
        _unindex_call(writes, layout, change.tenant, session, before, kept=now)
    for key, (score, member) in now.items():
        writes.add("ZADD", key, score, member)


def _unindex_call(
    writes: Writes, layout: Layout, tenant: str, session: Session, call: Call, kept: Container[str] = ()
) -> None:
    for key, (_, member) in _call_places(layout, tenant, session, call).items():
        if key not in kept:
            writes.add("ZREM", key, member)


def _call_places(layout: Layout, tenant: str, session: Session, call: Call) -> dict[str, tuple[int, str]]:
    """The indexes that a call stands in: with which score, as which member."""
    member = f"{session.session_id}/{call.interrupt_id}"
    places = dict.fromkeys(_call_keys(layout, tenant, call, session.agent), (call.expires_at, member))
    if call.kind == "authorization":
        keys = _authorization_keys(layout, tenant, call)
        places |= dict.fromkeys(keys, (call.created_at, session.session_id))
    return places


def _call_keys(layout: Layout, tenant: str, call: Call, agent: str | None) -> list[str]:
    agents = [None] if agent is None else [None, agent]
    tools = (None, call.tool_name)
    return [layout.inbox(tenant, call.status, tool=tool, agent=name) for tool in tools for name in agents]


def _authorization_keys(layout: Layout, tenant: str, call: Call) -> list[str]:
    kinds = (False, True) if call.status == PENDING else (False,)
    return [layout.authorizations(tenant, call.interrupt_id, open_only=kind) for kind in kinds]


def remove_calls(writes: Writes, layout: Layout, tenant: str, view: SessionView, known: Iterable[Call]) -> None:
    """These calls of a deleted session. May be done twice."""
    session, names = view.session, list[Argument]()
    writes.expect(layout.session(tenant, session.session_id).view, view.seq)
    for call in known:
        _unindex_call(writes, layout, tenant, session, call)
        names.append(call.interrupt_id)
    if names:
        writes.add("HDEL", layout.session(tenant, session.session_id).calls, *names)


def remove_session(writes: Writes, layout: Layout, tenant: str, view: SessionView) -> None:
    """What is left of a deleted session once its calls are removed."""
    models = layout.session(tenant, view.session.session_id)
    writes.expect(models.view, view.seq)
    if place := indexed(view.session):
        for key in _session_keys(layout, tenant, place):
            writes.add("ZREM", key, view.session.session_id)
    for key in (models.view, models.steps, models.calls, models.order):
        writes.add("UNLINK", key)


def _flat(fields: Mapping[str, Argument]) -> list[Argument]:
    return [part for pair in fields.items() for part in pair]
