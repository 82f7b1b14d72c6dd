"""What a session writes into the models: every index holds it exactly as long as it belongs there."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.domain.values import json_text
from projections.fold.index_writes import Writes, remove_calls, remove_session
from projections.fold.session_view import call_from_shown, from_record
from tests.unit.domain.given import Story, approve, ask, claim, connect, event, given, publish, reject, turn
from tests.unit.projections.memory import LAYOUT, TENANT, Memory

MODELS = LAYOUT.session(TENANT, "s1")


def story_of_everything() -> Story:
    story = given(turn(), publish(ask("c1"), ask("c2", tool_name="mail"), connect("a/1".replace("/", ":"))))
    return story.has(approve("c1")).has(claim()).has(reject("c2")).has(event("turn.failed")).has(turn("t2"))


def indexes(memory: Memory) -> dict[str, Any]:
    return {key: value for key, value in memory.keys.items() if ":s:" not in key}


def test_a_session_stands_in_its_class_alone_and_moves_with_its_status():
    memory, story = Memory(), given()
    seen = list[list[str]]()
    for what in (None, turn(), ask(), approve(), event("turn.completed"), event("session.completed")):
        before = len(story.lines) if what else 0
        if what:
            story.has(what)
        memory.fold("s1", story.lines[before:])
        prefix = LAYOUT.sessions(TENANT, "")
        seen.append([key.removeprefix(prefix) for key in memory.keys if key.startswith(prefix)])
    classes = ["running", "running", "parked", "running", "idle", "completed"]
    assert [set(one) for one in seen] == [{"all", "all:agent:helper", kind, f"{kind}:agent:helper"} for kind in classes]


def test_a_call_stands_under_its_status_tool_and_agent():
    memory, story = Memory(), given(ask("c1"))
    memory.fold("s1", story.lines)

    def held(status: str) -> list[list[str]]:
        return [
            list(memory.keys.get(LAYOUT.inbox(TENANT, status, tool=tool, agent=agent), {}))
            for tool in (None, "refund")
            for agent in (None, "helper")
        ]

    assert held("PENDING_APPROVAL") == [["s1/c1"]] * 4
    before = len(story.lines)
    memory.fold("s1", story.has(approve()).lines[before:])
    assert held("PENDING_APPROVAL") == [[]] * 4
    assert held("APPROVED_EXECUTING") == [["s1/c1"]] * 4


def test_an_authorization_is_found_by_its_name_and_as_open_only_while_it_waits():
    memory, story = Memory(), given(connect("view"))
    memory.fold("s1", story.lines)
    everyone, waiting = (LAYOUT.authorizations(TENANT, "view", open_only=kind) for kind in (False, True))
    assert "s1" in memory.keys[everyone]
    assert "s1" in memory.keys[waiting]
    before = len(story.lines)
    memory.fold("s1", story.has(event("session.failed")).lines[before:])
    assert "s1" in memory.keys[everyone]
    assert waiting not in memory.keys


def test_the_models_are_the_same_however_the_events_were_divided():
    story, whole = story_of_everything(), Memory()
    whole.fold("s1", story.lines)
    one_by_one = Memory()
    for line in story.lines:
        one_by_one.fold("s1", [line])
    assert one_by_one.keys == whole.keys
    for cut in range(1, len(story.lines)):
        halves = Memory()
        halves.fold("s1", story.lines[:cut])
        halves.fold("s1", story.lines[cut:])
        assert halves.keys == whole.keys


@pytest.mark.parametrize("twice", [False, True])
def test_a_deleted_session_leaves_nothing(twice: bool):
    memory, story = Memory(), story_of_everything()
    memory.fold("s1", story.lines)
    stored = memory.keys[MODELS.view]
    view = from_record("s1", int(stored["seq"]), json_text.read(stored["record"]))
    known = [call_from_shown(json_text.read(call)) for call in memory.keys[MODELS.calls].values()]
    writes = Writes()
    for _ in range(1 + twice):
        remove_calls(writes, LAYOUT, TENANT, view, known)
    remove_session(writes, LAYOUT, TENANT, view)
    memory.apply(writes)
    assert memory.keys == {}


def test_the_models_of_no_session_share_a_key_with_an_index():
    """Names that users choose stand in the keys: none may be taken for another part of the layout."""
    words = ["sessions", "inbox", "authorizations", "view", "steps", "calls", "order", "all", "open", "agent", "s", ""]
    taken = dict[str, object]()
    for word in words:
        session = LAYOUT.session(TENANT, word or "x")
        mine = [
            *((key, ("session", word)) for key in (session.view, session.steps, session.calls, session.order)),
            (LAYOUT.sessions(TENANT, "all", word), ("sessions", word)),
            (LAYOUT.inbox(TENANT, "EXPIRED", tool=word), ("tool", word)),
            (LAYOUT.inbox(TENANT, "EXPIRED", agent=word), ("agent", word)),
            *((LAYOUT.authorizations(TENANT, word, open_only=kind), (kind, word)) for kind in (False, True)),
        ]
        for key, owner in mine:
            assert taken.setdefault(key, owner) == owner


@pytest.mark.parametrize("first", ["s1", "s2"])
def test_an_authorization_stays_found_when_another_session_asks_for_the_same_meanwhile(first: str):
    """Both are written by one call of the script, where what is added to an index has no order to what is removed."""
    memory, decided, asked = Memory(), given(connect("a1")), given(connect("a1"))
    memory.fold("s2", decided.lines)
    before = len(decided.lines)
    news = {"s1": asked.lines, "s2": decided.has(event("session.failed")).lines[before:]}
    memory.fold_together(sorted(news.items(), key=lambda one: one[0] != first))
    assert set(memory.keys[LAYOUT.authorizations(TENANT, "a1", open_only=False)]) == {"s1", "s2"}
    assert set(memory.keys[LAYOUT.authorizations(TENANT, "a1", open_only=True)]) == {"s1"}
