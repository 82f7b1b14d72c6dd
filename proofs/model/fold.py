"""A session as its readers must see it: its events, taken in one after another, in plain Python.

Written from the protocol, and from nothing else of this project, so that it can judge it. Times stay texts; all are of
one form, so that they compare as texts do.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

SHOWN = 100
Event = dict[str, Any]
ASKS = ("input.requested", "authorization.required")


def same(one: Any, other: Any) -> bool:
    """The same JSON; false is not 0, and the order of members does not count."""
    return canonical(one) == canonical(other)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def later(text: str, ms: int) -> str:
    """A time so many milliseconds after another."""
    return as_text(datetime.fromisoformat(text) + timedelta(milliseconds=ms))


def as_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


@dataclass
class Call:
    """A call as it is shown, and what is not shown of it. `valid` is the attempt whose result would be taken."""

    shown: dict[str, Any]
    asked_seq: int
    turn_id: str | None
    step_id: str | None
    decided_seq: int = 0
    via: str | None = None
    result_seq: int = 0
    valid: int | None = 0
    released_seq: int = 0
    refusals: int = 0
    renewed_until: str | None = None
    """What its owner made of the lease since: no event tells, so only the call's own routes show it."""

    @property
    def status(self) -> str:
        return self.shown["status"]

    @property
    def state(self) -> str | None:
        """Of its execution."""
        return self.shown["execution"] and self.shown["execution"]["state"]

    @property
    def attempt(self) -> int:
        return self.shown["execution"]["attempt"] if self.shown["execution"] else 0

    def own(self) -> dict[str, Any]:
        """As its own routes show it."""
        execution = self.shown["execution"]
        if self.renewed_until and execution["lease_until"]:
            return {**self.shown, "execution": {**execution, "lease_until": self.renewed_until}}
        return self.shown


class Session:
    """The fold. `past[n]` is the snapshot as of seq n, as canonical JSON; it is kept where `remember` says so."""

    def __init__(self, session_id: str, *, remember: bool = True) -> None:
        self.session_id, self.seq, self.status, self.mode, self.token = session_id, 0, "running", "turn", ""
        self.agent: str | None = None
        self.thread_id = self.run_id = self.created_at = self.updated_at = ""
        self.metadata: dict[str, Any] = {}
        self.turn: dict[str, Any] | None = None
        self.steps: list[dict[str, Any]] = []
        self.open_step: dict[str, Any] | None = None
        self.calls: dict[str, Call] = {}
        self.past: dict[int, str] = {}
        self._remember = remember

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def waiting(self) -> list[str]:
        """The calls that wait, in the order they were asked."""
        return [name for name, call in self.calls.items() if call.status == "PENDING_APPROVAL"]

    def copy(self) -> Session:
        """One to think ahead with; it remembers nothing."""
        twin = copy.copy(self)
        twin.past, twin._remember = {}, False
        return copy.deepcopy(twin)

    def apply(self, event: Event) -> None:
        """Take one more event in."""
        assert event["seq"] == self.seq + 1, f"{self.session_id}: after {self.seq} comes {event}"
        self.seq, self.updated_at = event["seq"], event["time"]
        if change := self._CHANGES.get(event["type"]):
            change(self, event, event["data"])
        if self._remember:
            self.past[self.seq] = canonical(self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        waiting = set(self.waiting)
        others = [name for name in self.calls if name not in waiting][-SHOWN:]
        shown = waiting | set(others)
        return {
            **self.row_without_calls(),
            "run_id": self.run_id,
            "continuation_token": self.token,
            "turn": self.turn,
            "steps": self.steps[-SHOWN:],
            "steps_total": len(self.steps),
            "calls": [call.shown for name, call in self.calls.items() if name in shown],
            "calls_total": len(self.calls),
            "metadata": self.metadata,
        }

    def row(self) -> dict[str, Any]:
        """As it stands in the list of sessions."""
        return {**self.row_without_calls(), "open_calls": len(self.waiting)}

    def row_without_calls(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "agent": self.agent,
            "thread_id": self.thread_id,
            "status": self.status,
            "parked": bool(self.waiting),
            "seq": self.seq,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }

    def _received(self) -> None:
        if not self.waiting:
            self.status = "running"

    def _started(self, event: Event, data: dict[str, Any]) -> None:
        self.agent, self.thread_id, self.run_id = data["agent"], data["thread_id"], data["run_id"]
        self.mode, self.metadata, self.token = data["steps"], data["metadata"], data["continuation_token"]
        self.created_at = event["time"]

    def _message(self, event: Event, data: dict[str, Any]) -> None:
        self.token = data["continuation_token"]
        self._received()

    def _turn_started(self, event: Event, data: dict[str, Any]) -> None:
        self.turn = {"turn_id": data["turn_id"], "started_at": event["time"]}
        self._received()

    def _turn_ended(self, event: Event, data: dict[str, Any]) -> None:
        self.turn = self.open_step = None

    def _step_started(self, event: Event, data: dict[str, Any]) -> None:
        self.open_step = {
            "step_id": data["step_id"],
            "turn_id": data.get("turn_id"),
            "status": "running",
            "started_at": event["time"],
            "completed_at": None,
            "interrupt_kind": None,
            "interrupt_id": None,
        }
        self.steps.append(self.open_step)

    def _step_completed(self, event: Event, data: dict[str, Any]) -> None:
        self._newest_step(data["step_id"], "completed", completed_at=event["time"])
        self.open_step = None

    def _step_interrupted(self, event: Event, data: dict[str, Any]) -> None:
        why = {name: data.get(name) for name in ("interrupt_kind", "interrupt_id")}
        self._newest_step(data["step_id"], "interrupted", **why)
        if not self._step_waits(data["step_id"]):
            self.open_step = None

    def _newest_step(self, step_id: str, status: str, **changes: Any) -> None:
        step = self.steps[-1]
        assert step["step_id"] == step_id
        step |= {"status": status, "interrupt_kind": None, "interrupt_id": None, **changes}

    def _step_waits(self, step_id: str) -> bool:
        return any(self.calls[name].step_id == step_id for name in self.waiting)

    def _asked(self, event: Event, data: dict[str, Any]) -> None:
        copied = ("interrupt_id", "kind", "run_id", "thread_id", "tool_name", "tool_args", "args_digest", "options")
        shown = {name: data[name] for name in copied} | {
            "session_id": self.session_id,
            "status": "PENDING_APPROVAL",
            "message": data.get("message"),
            "response_schema": data.get("response_schema"),
            "allow_edits": data.get("allow_edits", False),
            "idempotent": data.get("idempotent", False),
            "created_at": event["time"],
            "expires_at": data["expires_at"],
            "updated_at": event["time"],
            "decision": None,
            "execution": None,
            "result": None,
            "is_error": False,
        }
        turn = self.turn["turn_id"] if self.turn else None
        step = self.open_step["step_id"] if self.open_step else None
        self.calls[data["interrupt_id"]] = Call(shown, event["seq"], turn, step)
        self.status = "waiting"

    def _completed(self, event: Event, data: dict[str, Any]) -> None:
        call, decision = self.calls[data["interrupt_id"]], data["decision"]
        statuses = {"approve": "APPROVED_EXECUTING", "respond": "EXECUTED"}
        self._decide(call, event, decision, statuses.get(decision["action"], "REJECTED"))
        if decision["action"] == "respond":
            call.result_seq = event["seq"]
            call.shown["result"] = decision["response"]
        if decision["action"] == "approve":
            call.shown["execution"] = {"state": "unclaimed", "attempt": 0, "owner": None, "lease_until": None}
        self._closed(call, resumes=decision["action"] != "cancel")

    def _authorized(self, event: Event, data: dict[str, Any]) -> None:
        call, reason = self.calls[data["interrupt_id"]], data.get("reason")
        action = "cancel" if reason else "approve" if data["success"] else "reject"
        decision = {"action": action, "by": event["by"], "at": event["time"], "note": data.get("error")}
        decision |= {"edited_args": None, "response": None, "reason": reason}
        self._decide(call, event, decision, "EXECUTED" if data["success"] else "REJECTED")
        self._closed(call, resumes=reason is None)

    def _decide(self, call: Call, event: Event, decision: dict[str, Any], status: str) -> None:
        call.shown |= {"decision": decision, "status": status, "updated_at": event["time"]}
        call.decided_seq, call.via = event["seq"], event.get("via")

    def _expired(self, event: Event, data: dict[str, Any]) -> None:
        call = self.calls[data["interrupt_id"]]
        call.shown |= {"status": "EXPIRED", "updated_at": event["time"]}
        self._closed(call, resumes=True)

    def _closed(self, call: Call, *, resumes: bool) -> None:
        step = self.open_step
        if step and step["status"] == "interrupted" and resumes and not self._step_waits(step["step_id"]):
            step |= {"status": "running", "interrupt_kind": None, "interrupt_id": None}
        if self.turn:
            self._received()

    def _refused(self, event: Event, data: dict[str, Any]) -> None:
        self.calls[data["interrupt_id"]].refusals += 1

    def _waits(self, event: Event, data: dict[str, Any]) -> None:
        self.status, self.token = "waiting", data["continuation_token"]

    def _ended(self, event: Event, data: dict[str, Any]) -> None:
        self.status = event["type"].removeprefix("session.")
        self.turn = self.open_step = None

    def _execution(self, event: Event, data: dict[str, Any], **changes: Any) -> Call:
        call = self.calls[data["interrupt_id"]]
        call.shown |= {"execution": call.shown["execution"] | changes, "updated_at": event["time"]}
        return call

    def _claimed(self, event: Event, data: dict[str, Any]) -> None:
        known = {name: data[name] for name in ("attempt", "owner", "lease_until")}
        call = self._execution(event, data, state="claimed", **known)
        call.valid, call.released_seq, call.renewed_until = data["attempt"], 0, None

    def _released(self, event: Event, data: dict[str, Any]) -> None:
        call = self._execution(event, data, state="unclaimed", owner=None, lease_until=None)
        call.valid, call.released_seq = None, event["seq"]

    def _lapsed(self, event: Event, data: dict[str, Any]) -> None:
        if self.calls[data["interrupt_id"]].shown["idempotent"]:
            self._execution(event, data, state="unclaimed", owner=None, lease_until=None)
        else:
            self._execution(event, data, state="indeterminate")

    def _settled(self, event: Event, data: dict[str, Any]) -> None:
        if data["outcome"] == "executed":
            self._resulted(event, data)
        else:
            call = self._execution(event, data, state="unclaimed", owner=None, lease_until=None)
            call.valid = None

    def _resulted(self, event: Event, data: dict[str, Any]) -> None:
        if data.get("interrupt_id") in self.calls:
            call = self._execution(event, data, state="done")
            call.result_seq = event["seq"]
            call.shown |= {"status": "EXECUTED", "result": data["result"], "is_error": data.get("is_error", False)}

    _CHANGES: ClassVar[dict[str, Callable[[Session, Event, dict[str, Any]], None]]] = {
        "session.started": _started,
        "message.received": _message,
        "turn.started": _turn_started,
        **dict.fromkeys(("turn.completed", "turn.failed", "turn.cancelled"), _turn_ended),
        "step.started": _step_started,
        "step.completed": _step_completed,
        "step.interrupted": _step_interrupted,
        **dict.fromkeys(ASKS, _asked),
        "input.completed": _completed,
        "authorization.completed": _authorized,
        "input.expired": _expired,
        "input.refused": _refused,
        "session.waiting": _waits,
        **dict.fromkeys(("session.completed", "session.failed"), _ended),
        "action.claimed": _claimed,
        "action.released": _released,
        "action.lapsed": _lapsed,
        "action.settled": _settled,
        "action.result": _resulted,
    }


def folded(session_id: str, events: Iterable[Event], *, remember: bool = False) -> Session:
    """The session that these events make."""
    session = Session(session_id, remember=remember)
    for event in events:
        session.apply(event)
    return session
