"""One session through the real stack, whatever is asked of it and whatever dies meanwhile: always as the model says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Generator
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from eventstore.batch import Answer, Retry
from eventstore.domain.commands import (
    ABSENT,
    Actor,
    ClaimCall,
    Command,
    CreateSession,
    DecideCall,
    NewEvent,
    RecordResult,
    ReleaseCall,
    SendMessage,
    SettleCall,
)
from eventstore.domain.errors import LaybyError, StoreUnavailable
from eventstore.domain.events import GENESIS, chain
from eventstore.domain.instants import parse
from eventstore.eventstore import EventStore, open_store
from eventstore.settings import Settings
from projections.read_models import ReadModels
from tests.integration.stores import passed
from tests.properties.session_model import Heard, Model
from tests.scripts.engines import HeldEngine, eventually, held_engine
from tests.unit.domain.given import ask as asked
from tests.unit.domain.given import event, publish, question

TENANT, SESSION = "default", "s1"
SHORT_MS = 20
SETTINGS = Settings(partitions=2)

names = st.sampled_from(["c1", "é:2"])
people = st.sampled_from(["anna", "ben"])
owners = st.sampled_from(["w1", "w2"])
values = st.sampled_from([None, False, {"a": [2**70]}])
attempts = st.integers(1, 2)
kinds = st.sampled_from(["approval", "approval", "question"])
actions = st.sampled_from(["approve", "approve", "reject", "respond"])
AFTER = st.sampled_from(["look", "list", "decide", "append", "claim", "message", "end"])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[HeldEngine]:
    with held_engine(tmp_path_factory.mktemp("model")) as held:
        yield held


class SessionMachine(RuleBasedStateMachine):
    engine: HeldEngine

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.keys = count(1)
        self.kept = list[tuple[Command, str, Retry, dict[str, Any]]]()
        self.lines = list[bytes]()
        self.past = dict[int, bytes]()
        self.killed = False
        self.token = ""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(background=st.booleans())
    def begin(self, background: bool) -> None:
        with Redis.from_url(self.engine.url) as redis:
            redis.flushall()
        self._open(background)
        self._heard(CreateSession(SESSION, agent="ann"), "applied")

    def _open(self, background: bool) -> None:
        self.store: EventStore = self.run(self._opened(background))
        self.models = ReadModels(self.store)
        if background:
            self.run(self._start())

    async def _opened(self, background: bool) -> EventStore:
        return await open_store(self.engine.url, SETTINGS, start=background)

    async def _start(self) -> None:
        self.models.start()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._close()
        self.runner.close()

    def _close(self) -> None:
        self.run(self.models.close())
        self.run(self.store.close())

    def _heard(self, command: Command | NewEvent, expected: Heard, by: str = "anna", *, keyed: bool = False) -> None:
        """Carry out, and hear what the model says."""
        command = publish(command) if isinstance(command, NewEvent) else command
        retry = Retry(f"{by} POST /x {next(self.keys)}", "body") if keyed else None
        try:
            answer = self.run(self._execute(command, by, retry))
        except LaybyError as error:
            assert type(error) is expected, f"{command}: expected {expected}, heard {error!r}"
            return
        assert self._outcome(answer) in (expected, "applied" if expected == "renewed" else expected), command
        assert not answer.replayed
        if retry:
            self.kept.append((command, by, retry, answer.result))

    async def _execute(self, command: Command, by: str, retry: Retry | None) -> Answer:
        return await self.store.execute(TENANT, SESSION, command, Actor(by), retry)

    def _outcome(self, answer: Answer) -> str:
        if "duplicate" in answer.result:
            return "duplicate" if answer.result["duplicate"] else "applied"
        return answer.result.get("outcome", "applied")

    @rule(keyed=st.booleans())
    def append(self, keyed: bool) -> None:
        self._heard(event("note.taken", text="\u2028", list=[]), self.model.append(), keyed=keyed)

    @rule(name=names, kind=kinds, idempotent=st.booleans(), keyed=st.booleans())
    def ask(self, name: str, kind: str, idempotent: bool, keyed: bool) -> None:
        self._heard(self._request(name, kind, idempotent), self.model.ask(name, kind, idempotent), keyed=keyed)

    def _request(self, name: str, kind: str, idempotent: bool, **more: Any) -> NewEvent:
        return question(name, **more) if kind == "question" else asked(name, idempotent=idempotent, **more)

    @rule(name=names, kind=kinds, after=AFTER)
    def ask_and_let_the_deadline_pass(self, name: str, kind: str, after: str) -> None:
        expected = self.model.ask(name, kind, False)
        self._heard(self._request(name, kind, False, expires_in_ms=SHORT_MS), expected)
        if expected != "applied":
            return
        self._let_pass(SHORT_MS)
        self.model.expire(name)
        self._then(after, name)

    def _then(self, what: str, name: str) -> None:
        """The first to meet what is due: each road must let it take effect before anything else happens."""
        match what:
            case "list":
                self.run(self._inbox("PENDING_APPROVAL"))
            case "decide":
                self.decide(name, "reject", None, "anna", False)
            case "append":
                self.append(False)
            case "claim":
                self.claim(name, "w1", False)
            case "message":
                self._heard(SendMessage("old", "hi"), self.model.message(stale=True))
            case "end":
                self._heard(event("session.failed"), self.model.end("failed"))
            case _:
                pass

    def _let_pass(self, ms: int) -> None:
        async def wait() -> None:
            seconds, micros = await self.store.connection.command("TIME")
            await passed(self.store, int(seconds) * 1000 + int(micros) // 1000 + ms)

        self.run(wait())

    @rule(name=names, action=actions, response=values, by=people, keyed=st.booleans())
    def decide(self, name: str, action: str, response: Any, by: str, keyed: bool) -> None:
        given = response if action == "respond" else ABSENT
        heard = self.model.decide(name, action, response if action == "respond" else None, by)
        self._heard(DecideCall(name, action, response=given), heard, by, keyed=keyed)

    @rule(name=names, idempotent=st.booleans(), owner=st.none() | owners)
    def ask_and_approve(self, name: str, idempotent: bool, owner: str | None) -> None:
        """The beginning of most lives, so that what comes later is met often enough."""
        self.ask(name, "approval", idempotent, False)
        self.decide(name, "approve", None, "anna", False)
        if owner:
            self.claim(name, owner, False)

    @precondition(lambda self: any(call.decision for call in self.model.calls.values()))
    @rule(which=st.integers(0, 9), by=people, keyed=st.booleans())
    def decide_again(self, which: int, by: str, keyed: bool) -> None:
        decided = [(name, call.decision) for name, call in self.model.calls.items() if call.decision]
        name, (action, _, response) = decided[which % len(decided)]
        if action != "cancel":
            self.decide(name, action, response, by, keyed)

    @rule(name=names, owner=owners, keyed=st.booleans())
    def claim(self, name: str, owner: str, keyed: bool) -> None:
        self._heard(ClaimCall(name, owner, 60_000), self.model.claim(name, owner), keyed=keyed)

    @rule(name=names, owner=owners, after=AFTER)
    def claim_and_let_the_lease_pass(self, name: str, owner: str, after: str) -> None:
        expected = self.model.claim(name, owner)
        self._heard(ClaimCall(name, owner, SHORT_MS), expected)
        if expected in ("applied", "renewed"):
            self._let_pass(SHORT_MS)
            self.model.lapse(name)
            self._then(after, name)

    @rule(name=names, attempt=attempts)
    def release(self, name: str, attempt: int) -> None:
        self._heard(ReleaseCall(name, attempt), self.model.release(name, attempt))

    @rule(name=names, value=values, attempt=st.none() | attempts, keyed=st.booleans())
    def record_result(self, name: str, value: Any, attempt: int | None, keyed: bool) -> None:
        self._heard(RecordResult(name, value, attempt), self.model.record(name, value, attempt), keyed=keyed)

    @rule(name=names, outcome=st.sampled_from(["executed", "not_executed"]), value=values)
    def settle(self, name: str, outcome: str, value: Any) -> None:
        self._heard(SettleCall(name, outcome, "seen", value), self.model.settle(name, outcome, value))

    @rule(stale=st.booleans(), keyed=st.booleans())
    def message(self, stale: bool, keyed: bool) -> None:
        token = "old" if stale else self.token
        self._heard(SendMessage(token, "hi"), self.model.message(stale=stale), keyed=keyed)

    @rule(status=st.sampled_from(["completed", "failed"]), really=st.integers(0, 9))
    def end(self, status: str, really: int) -> None:
        if not really or self.model.ended:  # seldom, since little can follow
            self._heard(event(f"session.{status}"), self.model.end(status))

    @precondition(lambda self: self.kept)
    @rule(which=st.integers(0, 99))
    def retry(self, which: int) -> None:
        """A request whose answer was lost is sent again: the first answer, and nothing happens."""
        command, by, retry, result = self.kept[which % len(self.kept)]
        answer = self.run(self._execute(command, by, retry))
        assert answer.replayed
        assert json.loads(json.dumps(answer.result)) == json.loads(json.dumps(result))

    @rule(background=st.booleans())
    def restart_the_process(self, background: bool) -> None:
        self._close()
        self._open(background)

    @invariant()
    def the_snapshot_shows_it(self) -> None:
        if not hasattr(self, "store"):
            return
        seq, body = self.run(self.models.session(TENANT, SESSION))
        shown, model = json.loads(body), self.model
        self.token = shown["continuation_token"]
        assert (shown["seq"], shown["status"], shown["parked"]) == (len(model.types), model.status, bool(model.pending))
        assert [call["interrupt_id"] for call in shown["calls"]] == list(model.calls)
        for call, known in zip(shown["calls"], model.calls.values(), strict=True):
            decision, execution = call["decision"] or {}, call["execution"] or {}
            assert (call["status"], execution.get("state"), execution.get("attempt", 0)) == (
                known.status, known.state, known.attempt,
            )  # fmt: skip
            assert (decision.get("action"), decision.get("by"), decision.get("response")) == (
                known.decision or (None,) * 3
            )
            assert call["result"] == (known.result if known.status == "EXECUTED" else None)
        assert self.past.setdefault(seq, body) == body
        earlier = sorted(self.past)[len(self.lines) % len(self.past)]
        assert self.run(self.models.session_at(TENANT, SESSION, at=earlier)) == (earlier, self.past[earlier])

    @invariant()
    def the_log_holds_it(self) -> None:
        if not hasattr(self, "store"):
            return
        events = self.store.session_keys(TENANT, SESSION).events
        entries = self.run(self.store.connection.command("XRANGE", events, "-", "+"))
        assert [entry for entry, _ in entries] == [b"%d-0" % seq for seq in range(1, len(entries) + 1)]
        lines, hash_ = [fields[b"e"] for _, fields in entries], GENESIS
        for line, (_, fields) in zip(lines, entries, strict=True):
            hash_ = chain(hash_, line)
            assert fields[b"h"] == hash_.encode()
        read = [json.loads(line) for line in lines]
        assert [one["type"] for one in read] == self.model.types
        assert all(parse(one["time"]) <= parse(other["time"]) for one, other in pairwise(read))
        assert lines[: len(self.lines)] == self.lines, "what was written once was changed"
        self.lines = lines

    @invariant()
    def the_lists_hold_it(self) -> None:
        if not hasattr(self, "store"):
            return
        statuses = ["PENDING_APPROVAL", "APPROVED_EXECUTING", "EXECUTED", "REJECTED", "EXPIRED"]
        for status in ("PENDING_APPROVAL", statuses[len(self.lines) % 5]):
            held = {name for name, call in self.model.calls.items() if call.status == status}
            found = self.run(self._inbox(status))
            assert {call["interrupt_id"] for call in found["calls"]} == held
            assert found["total"] == len(held)
        known: dict[str, Any] = {"parked": None, "agent": "ann", "limit": 5, "cursor": None}
        (row,) = json.loads(self.run(self.models.sessions(TENANT, status=self.model.status, **known)))["sessions"]
        assert (row["seq"], row["open_calls"]) == (len(self.model.types), len(self.model.pending))

    async def _inbox(self, status: str) -> Any:
        known: dict[str, Any] = {"tool_name": None, "agent": None, "limit": 50, "cursor": None}
        return json.loads(await self.models.inbox(TENANT, status=status, **known))


class KilledMachine(SessionMachine):
    """The engine dies too, once, as if the power had failed."""

    @precondition(lambda self: not self.killed and len(self.model.types) > 5)
    @rule()
    def kill_the_engine(self) -> None:
        self.killed = True
        before = self.engine.pid
        self.engine.kill()
        eventually(lambda: self.engine.pid != before and self._answers())

    def _answers(self) -> bool:
        try:
            self.run(self.store.head(TENANT, SESSION))
        except (StoreUnavailable, ValueError):
            return False
        return True


@pytest.mark.parametrize(("machine", "examples"), [(SessionMachine, 30), (KilledMachine, 2)])
def test_a_session_is_always_as_the_model_says(engine: HeldEngine, machine: type[SessionMachine], examples: int):
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"engine": engine}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate],  # a failure is told at once: real waits make shrinking slow
        ),
    )
