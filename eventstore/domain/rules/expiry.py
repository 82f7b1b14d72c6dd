"""How waiting ends without a person: deadlines and leases that pass, turns and sessions that end."""

from __future__ import annotations

from collections.abc import Iterable

from eventstore.domain import call as calls
from eventstore.domain.draft import Draft
from eventstore.domain.values import timestamps

EXPIRED_AT_ONCE = 200
"""How many calls one commit lets expire; the rest follow in the next."""


def wait(draft: Draft) -> None:
    """Say that the session waits: parked for its calls, or idle. Every such event has a new continuation token."""
    parked = draft.session.parked
    draft.grow(sum(map(len, draft.session.waiting)))
    data = {
        "parked": parked,
        "reason": "parked" if parked else "idle",
        "continuation_token": draft.context.new_id(""),
        "pending_interrupt_ids": list(draft.session.waiting),
    }
    draft.emit("session.waiting", data)


def after_closing(draft: Draft) -> None:
    """When the last waiting call is closed while no turn is open, the session is idle."""
    session = draft.session
    if not session.waiting and session.turn is None:
        wait(draft)


def retire(draft: Draft, interrupt_ids: list[str], reason: str) -> None:
    """Cancel calls that nobody will wait for any more. `reason` is `session_ended` or `turn_ended`."""
    draft.require(interrupt_ids)
    for interrupt_id in interrupt_ids:
        if draft.session.waiting[interrupt_id].kind == "authorization":
            refused = {"interrupt_id": interrupt_id, "success": False, "error": None, "reason": reason}
            draft.emit("authorization.completed", refused)
        else:
            decision = calls.new_decision("cancel", "layby", draft.context.now, reason=reason)
            draft.emit("input.completed", {"interrupt_id": interrupt_id, "action": "cancel", "decision": decision})


def expire_due(draft: Draft) -> None:
    """Let what is due at the draft's time take effect: deadlines in their order, then leases."""
    session, now = draft.session, draft.context.now
    overdue = _overdue(now, ((iid, call.expires_at) for iid, call in session.waiting.items()))
    lapsed = _overdue(now, session.leases.items())
    draft.require([*overdue, *lapsed])
    for interrupt_id in overdue:
        _expire(draft, interrupt_id)
    if overdue:
        after_closing(draft)
    for interrupt_id in lapsed:
        _lapse(draft, interrupt_id)


def _overdue(now: int, deadlines: Iterable[tuple[str, int]]) -> list[str]:
    due = sorted((deadline, iid) for iid, deadline in deadlines if deadline <= now)
    return [iid for _, iid in due[:EXPIRED_AT_ONCE]]


def _expire(draft: Draft, interrupt_id: str) -> None:
    waiting = draft.session.waiting[interrupt_id]
    expires_at = timestamps.text(waiting.expires_at)
    draft.emit("input.expired", {"interrupt_id": interrupt_id, "kind": waiting.kind, "expires_at": expires_at})


def _lapse(draft: Draft, interrupt_id: str) -> None:
    call = draft.sound_call(interrupt_id)
    attempt = call.execution.attempt if call and call.execution else 0
    draft.emit("action.lapsed", {"interrupt_id": interrupt_id, "attempt": attempt})
