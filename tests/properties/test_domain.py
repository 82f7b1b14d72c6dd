"""Whatever is asked of a session, and in whatever order: what must always hold, holds.

`Story` itself checks after every command that nothing handed in was changed, that seq is dense, that time never goes
back, and that folding all stored lines again gives the same session and the same calls.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eventstore.domain import events as log
from eventstore.domain.call import APPROVED, EXECUTED, EXPIRED, PENDING, REJECTED, Call
from eventstore.domain.commands import (
    ABSENT,
    Actor,
    ClaimCall,
    Command,
    CompleteAuthorization,
    DecideCall,
    ExpireDue,
    RecordResult,
    ReleaseCall,
    SendMessage,
    SettleCall,
)
from eventstore.domain.errors import CallExpired
from eventstore.domain.events import CALL_CLOSES, SESSION_ENDS, Event
from eventstore.domain.steps import FinishedStep
from eventstore.domain.values import json_text, timestamps
from tests.unit.domain.given import Story, ask, connect, event, publish, question, step, turn
from tests.unit.domain.given import given as a_session

MOVES = {(PENDING, APPROVED), (PENDING, EXECUTED), (APPROVED, EXECUTED), (PENDING, REJECTED), (PENDING, EXPIRED)}
AFTER_THE_END = {"action.claimed", "action.released", "action.lapsed", "action.settled", "action.result"}

ids = st.sampled_from(["c1", "c2", "c3"])
names = st.sampled_from(["t1", "t2", None])
waits = st.sampled_from([1, 50, 1_000])
attempts = st.integers(0, 3)
answers = st.sampled_from([None, False, 0, 1, 1.0, "yes", {"a": [1]}])
actors = st.sampled_from([Actor("anna"), Actor("ben"), Actor("anna", "console")])

asks = st.one_of(
    st.builds(lambda i, ms, edits, again: ask(i, expires_in_ms=ms, allow_edits=edits, idempotent=again),
              ids, waits, st.booleans(), st.booleans()),
    st.builds(lambda i, ms: question(i, expires_in_ms=ms), ids, waits),
    st.builds(lambda i, ms: connect(i, expires_in_ms=ms), ids, waits),
)  # fmt: skip
turns = st.one_of(
    st.builds(turn, st.sampled_from(["t1", "t2"])),
    st.builds(
        lambda kind, name: event(kind, turn_id=name),
        st.sampled_from(["turn.completed", "turn.failed", "turn.cancelled"]),
        names,
    ),
)
steps = st.one_of(
    st.builds(step, st.sampled_from(["s1", "s2"])),
    st.builds(
        lambda kind, name: event(kind, step_id=name),
        st.sampled_from(["step.completed", "step.interrupted"]),
        st.sampled_from(["s1", "s2"]),
    ),
)
others = st.sampled_from([event("message.appended"), event("action.result", interrupt_id="c1"), event("input.expired")])
published = st.one_of(turns, steps, asks, others)
batches = st.lists(published, min_size=1, max_size=3).map(lambda events: publish(*events))

decisions = st.one_of(
    st.builds(DecideCall, ids, st.sampled_from(["approve", "reject"]), edited_args=st.sampled_from([None, None, {}])),
    st.builds(DecideCall, ids, st.just("respond"), response=answers),
    st.builds(DecideCall, ids, st.just("approve"), response=st.sampled_from([ABSENT, None])),
    st.builds(CompleteAuthorization, ids, st.booleans()),
)
runs = st.one_of(
    st.builds(ClaimCall, ids, st.sampled_from(["w1", "w2"]), waits),
    st.builds(ReleaseCall, ids, attempts),
    st.builds(RecordResult, ids, answers, st.one_of(st.none(), attempts), st.booleans()),
    st.builds(SettleCall, ids, st.sampled_from(["executed", "not_executed"]), st.just("seen")),
)
endings = st.sampled_from(sorted(SESSION_ENDS)).map(lambda kind: publish(event(kind)))

Tell = Callable[[Story], Command]
commands: st.SearchStrategy[Tell] = st.one_of(
    batches.map(lambda command: lambda story: command),
    decisions.map(lambda command: lambda story: command),
    runs.map(lambda command: lambda story: command),
    st.just(lambda story: SendMessage(story.session.token, "hi")),
    st.just(lambda story: SendMessage("old", "hi")),
    st.just(lambda story: ExpireDue()),
    st.integers(0, 9).flatmap(lambda n: batches if n else endings).map(lambda command: lambda story: command),
)
moments = st.tuples(commands, actors, st.sampled_from([0, 0, 0, 1, 50, 1_000]), st.booleans())


@settings(max_examples=150)
@given(st.sampled_from(["turn", "explicit"]), st.lists(moments, min_size=5, max_size=30))
def test_what_must_always_hold(steps: str, told: list[tuple[Tell, Actor, int, bool]]):
    story = a_session(steps=steps)
    for tell, by, later, swept in told:
        story.at(story.now + later)
        if swept:  # as the writer does before every commit; the rules may not rely on it
            story.has(ExpireDue())
        before = dict(story.calls)
        story.when(tell(story), by=by)
        assert story.error is None or isinstance(story.error, CallExpired) or not story.events
        _only_allowed_moves(before, story.calls)
    _each_event_in_its_place([log.parse_line(line) for line in story.lines])


def _only_allowed_moves(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, then in before.items():
        now = after[name]
        if isinstance(then, FinishedStep):  # records of finished steps lie beside the calls
            assert now == then
            continue
        assert isinstance(then, Call)
        assert isinstance(now, Call)
        assert then.status == now.status or (then.status, now.status) in MOVES
        assert then.expires_at == now.expires_at
        assert then.decision in (None, now.decision)
        if then.status == EXECUTED:
            assert (then.result, then.is_error) == (now.result, now.is_error)


def _each_event_in_its_place(events: list[Event]) -> None:
    assert [happened.seq for happened in events] == list(range(1, len(events) + 1))
    assert all(earlier.time <= later.time for earlier, later in pairwise(events))
    pending, closed, tokens, ended = list[str](), set[str](), set[str](), False
    for happened in events:
        assert not ended or happened.type in AFTER_THE_END
        ended = ended or happened.type in SESSION_ENDS
        if happened.type in log.ASKS:
            pending.append(happened.data["interrupt_id"])
        if happened.type in CALL_CLOSES:
            assert happened.data["interrupt_id"] not in closed
            closed.add(happened.data["interrupt_id"])
            pending.remove(happened.data["interrupt_id"])
        if happened.type == "session.waiting":
            assert happened.data["pending_interrupt_ids"] == pending
            assert happened.data["parked"] == bool(pending)
        if token := happened.data.get("continuation_token"):
            assert token not in tokens
            tokens.add(token)
    assert not (ended and pending)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from([json_text.LongInteger("7" * 6_000), json_text.LongInteger("-" + "7" * 5_000)]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100)
@given(values)
def test_any_json_is_kept_on_one_line(value: Any):
    text = json_text.dumps(value)
    assert len(text.splitlines()) == 1
    assert json_text.loads(text) == json_text.loads(text.encode()) == value


@settings(max_examples=100)
@given(values)
def test_the_canonical_form_is_the_same_once_read_again(value: Any):
    text = json_text.canonical(value)
    assert json_text.canonical(json_text.loads(text)) == text
    assert json_text.same(value, json_text.loads(json_text.dumps(value)))


@settings(max_examples=100)
@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_any_time_is_read_as_it_was_written(ms: int):
    assert timestamps.parse(timestamps.text(ms)) == ms
