"""One call as a state machine, written anew from the protocol: what each request must hear in each state.

    PENDING_APPROVAL -> APPROVED_EXECUTING -> EXECUTED
    PENDING_APPROVAL -> REJECTED
    PENDING_APPROVAL -> EXPIRED

Nothing here is shared with Layby's own rules. Values that only the service can choose (a seq, the end of a lease) are
taken from the answer that gave them out, and must be the same in every later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proofs.histories.call import (
    ABSENT,
    APPROVED,
    EFFECTIVE,
    EXECUTED,
    EXPIRED,
    PENDING,
    REJECTED,
    Ask,
    Asked,
    Call,
    Claim,
    Deadline,
    Decide,
    Decision,
    Execution,
    Heard,
    LeaseEnd,
    Look,
    Record,
    Release,
    SessionEnd,
    Settle,
    View,
    shown,
)
from proofs.histories.linearizability import Operation

_Move = tuple[Call, Heard]
_NOTHING = Heard("")


@dataclass(frozen=True, slots=True)
class Register:
    """A call that was asked with or without `idempotent`."""

    idempotent: bool = False

    def step(self, call: Call, operation: Operation[Asked, Heard]) -> Call | None:
        """The call afterwards, or None if it could not have answered so."""
        told = operation.heard
        after, expected = self.move(call, operation.asked, told or _NOTHING)
        return after if told is None or told == expected else None

    def idle(self, operation: Operation[Asked, Heard]) -> bool:
        """Whether it was told that nothing changed."""
        return operation.heard is not None and operation.heard.word not in EFFECTIVE

    def move(self, call: Call, asked: Asked, told: Heard) -> _Move:
        """The call afterwards, and what must be heard."""
        match asked:
            case Ask():
                return _ask(call, asked, told)
            case Look():
                return call, _look(call, asked, told)
            case Deadline():
                return (replace(call, status=EXPIRED) if call.status == PENDING else call), told
            case LeaseEnd():
                return self._lapse(call, asked), told
            case SessionEnd():
                cancelled = replace(call, status=REJECTED, decision=Decision("cancel", "layby"))
                return (cancelled if call.status == PENDING else call), told
            case _ if call.status == ABSENT:
                return call, Heard("call-not-found")
            case Decide():
                return _decide(call, asked, told)
            case Settle():
                return _settle(call, asked, told)
            case _ if call.execution is None:
                return call, Heard("not-approved")
            case Record():
                return _record(call, call.execution, asked, told)
            case _ if call.status == EXECUTED:
                return call, Heard("result-already-recorded", view=shown(call, "call", told))
            case Claim():
                return _claim(call, call.execution, asked, told)
            case Release():
                return _release(call, call.execution, asked, told)

    def _lapse(self, call: Call, asked: LeaseEnd) -> Call:
        execution = call.execution
        if execution is None or execution.state != "claimed" or execution.lease_until != asked.until:
            return call
        if self.idempotent:
            return _run(call, execution, state="unclaimed", owner=None, lease_until=None, claimed_until=None)
        return _run(call, execution, state="indeterminate")


def _look(call: Call, asked: Look, told: Heard) -> Heard:
    if call.status == ABSENT and asked.how != "inbox":
        return Heard("call-not-found")
    return Heard("shown", view=shown(call, asked.how, told))


def _ask(call: Call, asked: Ask, told: Heard) -> _Move:
    if call.status == ABSENT:
        return Call(PENDING, asked.arguments, told.seq), Heard("applied", seq=told.seq)
    if call.arguments != asked.arguments:
        return call, Heard("interrupt-exists")
    return call, Heard("duplicate", seq=_known(call.asked_seq, told), view=View("ask", call.status))


def _decide(call: Call, asked: Decide, told: Heard) -> _Move:
    if not asked.offered:
        return call, Heard("invalid-request")
    if call.decision is not None:
        if asked.decision.same(call.decision):
            return _heard(call, told, "duplicate", _known(call.decided_seq, told))
        return call, Heard("call-already-decided", view=shown(call, "call", told))
    if call.status == EXPIRED:
        return call, Heard("call-expired", view=shown(call, "call", told))
    if not asked.view:
        return call, Heard("stale-view")
    decided = replace(call, decision=asked.decision, decided_seq=told.seq)
    if asked.decision.action == "reject":
        after = replace(decided, status=REJECTED)
    elif asked.decision.action == "respond":
        after = replace(decided, status=EXECUTED, result=asked.decision.response)
    else:
        after = replace(decided, status=APPROVED, execution=Execution())
    return _heard(after, told, "applied", told.seq)


def _claim(call: Call, execution: Execution, asked: Claim, told: Heard) -> _Move:
    if execution.state == "indeterminate":
        return call, Heard("outcome-unknown")
    if execution.state == "claimed" and execution.owner != asked.owner:
        return call, Heard("already-claimed")
    if execution.state == "claimed":
        after = _run(call, execution, lease_until=told.until)
    else:
        attempt = execution.attempt + 1
        leased = Execution("claimed", attempt, asked.owner, attempt, lease_until=told.until, claimed_until=told.until)
        after = replace(call, execution=leased)
    assert after.execution
    view = shown(after, "call", told)
    return after, Heard("granted", attempt=after.execution.attempt, until=told.until, view=view)


def _release(call: Call, execution: Execution, asked: Release, told: Heard) -> _Move:
    given_back = execution.valid is None and execution.released_seq is not None
    if given_back and asked.attempt == execution.attempt:
        return _heard(call, told, "duplicate", _known(execution.released_seq, told))
    if execution.attempt == 0 or asked.attempt != execution.valid:
        return call, Heard("fenced")
    seq = told.seq or -1  # it was released, whether the number is known or not
    gone = {"owner": None, "lease_until": None, "claimed_until": None, "valid": None, "released_seq": seq}
    return _heard(_run(call, execution, state="unclaimed", **gone), told, "applied", told.seq)


def _record(call: Call, execution: Execution, asked: Record, told: Heard) -> _Move:
    if asked.attempt is None and execution.attempt:
        return call, Heard("invalid-request")
    attempt = asked.attempt or 0
    if call.status != EXECUTED:
        if attempt != execution.valid:
            return call, Heard("fenced")
        after = _done(call, execution, asked.result, asked.is_error, told.seq)
        return _heard(after, told, "applied", told.seq)
    if attempt != execution.attempt:
        return call, Heard("fenced")
    if (asked.result, asked.is_error) != (call.result, call.is_error):
        return call, Heard("result-already-recorded", view=shown(call, "call", told))
    return _heard(call, told, "duplicate", _known(call.result_seq, told))


def _settle(call: Call, asked: Settle, told: Heard) -> _Move:
    execution = call.execution
    if call.status != APPROVED or execution is None or execution.state != "indeterminate":
        return call, Heard("not-indeterminate")
    if asked.outcome == "executed":
        after = _done(call, execution, asked.result, False, told.seq)
    else:
        gone = {"owner": None, "lease_until": None, "claimed_until": None, "valid": None}
        after = _run(call, execution, state="unclaimed", **gone)
    return _heard(after, told, "applied", told.seq)


def _done(call: Call, execution: Execution, result: str, is_error: bool, seq: int | None) -> Call:
    recorded = {"result": result, "is_error": is_error, "result_seq": seq}
    return replace(_run(call, execution, state="done"), status=EXECUTED, **recorded)


def _run(call: Call, execution: Execution, **changes: object) -> Call:
    return replace(call, execution=replace(execution, **changes))


def _heard(call: Call, told: Heard, word: str, seq: int | None) -> _Move:
    return call, Heard(word, seq=seq, view=shown(call, "call", told))


def _known(seq: int | None, told: Heard) -> int | None:
    """A number that an unknown answer gave out can be any."""
    return told.seq if seq in (None, -1) else seq
