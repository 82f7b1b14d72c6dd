"""What each request leads to, as the protocol has it. Each rule adds events to a plan, or raises `Refused`."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from proofs.model.fold import ASKS, Call, Session, canonical, same
from proofs.model.plan import NOW, Plan, Refused, in_ms, new

Body = dict[str, Any]
RESERVED = {
    "session.started", "session.waiting", "input.completed", "input.expired", "input.refused",
    "authorization.completed", "message.received", "action.claimed", "action.released", "action.lapsed",
    "action.settled",
}  # fmt: skip
DAY_MS = 86_400_000


def digest(tool_name: str, tool_args: Body) -> str:
    """For arguments whose canonical JSON Python writes too."""
    return "sha256:" + sha256(canonical({"tool_name": tool_name, "tool_args": tool_args}).encode()).hexdigest()


# Sessions


def create(plan: Plan, body: Body) -> None:
    if plan.session.seq:
        raise Refused(409, "session-exists")
    token = new()
    data = {name: body.get(name) for name in ("agent", "thread_id", "run_id")} | {"metadata": body.get("metadata", {})}
    data |= {"thread_id": data["thread_id"] or body["session_id"], "run_id": data["run_id"] or new()}
    plan.emit("session.started", {**data, "steps": body.get("steps", "turn"), "continuation_token": token})
    if "message" in body:
        plan.emit("message.received", {"text": body["message"], "continuation_token": new()})
    plan.status = 201
    plan.answer = lambda now: {**_at_seq(now), "status": now.status, "continuation_token": now.token}


def _at_seq(now: Session) -> Body:
    return {"session_id": now.session_id, "seq": now.seq}


def message(plan: Plan, body: Body) -> None:
    session = plan.session
    if session.ended:
        raise Refused(409, "session-terminal")
    if body["continuation_token"] != session.token:
        raise Refused(409, "continuation-token-stale")
    if session.turn and not session.waiting:
        raise Refused(409, "session-busy")
    plan.emit("message.received", {"text": body["message"], "continuation_token": new()})
    plan.answer = lambda now: {**_at_seq(now), "continuation_token": now.token}


# What publishers send


def publish(plan: Plan, events: list[Body], if_match: int | None = None) -> None:
    session = plan.session
    if if_match is not None and if_match != session.seq:
        raise Refused(412, "version-mismatch", current_seq=session.seq)
    first, again = session.seq + 1, list[Body]()
    for index, event in enumerate(events):
        kind, data = event["type"], event.get("data", {})
        if kind in RESERVED or (session.mode == "turn" and kind.startswith("step.")):
            raise Refused(422, "reserved-type")
        if session.ended:
            raise _illegal(plan, index)
        if kind in ASKS:
            again += _ask(plan, kind, data, first)
        elif kind == "action.result" and data.get("interrupt_id") in session.calls:
            raise Refused(422, "reserved-type")
        else:
            _EVENTS.get(kind, _any)(plan, kind, data, index)
    plan.status = 201
    written = [{"seq": event["seq"], "type": event["type"]} for event in plan.events]
    listed = sorted([*written, *again], key=lambda entry: entry["seq"])
    span = written or listed
    answer = {"first_seq": span[0]["seq"], "last_seq": span[-1]["seq"], "events": listed, "duplicate": not written}
    plan.answer = lambda now: {"session_id": now.session_id, **answer}


def _illegal(plan: Plan, index: int) -> Refused:
    return Refused(409, "illegal-transition", index=index, state=plan.session.status)


def _any(plan: Plan, kind: str, data: Body, index: int) -> None:
    plan.emit(kind, data)


def _turn_started(plan: Plan, kind: str, data: Body, index: int) -> None:
    if plan.session.turn:
        raise _illegal(plan, index)
    turn_id = data.get("turn_id") or new()
    plan.emit(kind, {**data, "turn_id": turn_id})
    if plan.session.mode == "turn":
        plan.emit("step.started", {"step_id": new(), "turn_id": turn_id, "status": "running"}, derived=True)


def _turn_ended(plan: Plan, kind: str, data: Body, index: int) -> None:
    session, turn, step = plan.session, plan.session.turn, plan.session.open_step
    if not turn or data.get("turn_id", turn["turn_id"]) != turn["turn_id"]:
        raise _illegal(plan, index)
    running = step is not None and step["status"] == "running"
    plan.emit(kind, {**data, "turn_id": turn["turn_id"]})
    if step and session.mode == "turn" and kind == "turn.completed" and running:
        plan.emit("step.completed", {**_names(step), "status": "completed"}, derived=True)
    elif step and (running if session.mode == "explicit" else kind != "turn.completed"):
        _interrupt(plan, step, "unknown")
    if kind != "turn.completed":
        _retire(plan, "turn_ended", turn["turn_id"])
    plan.wait()


def _names(step: Body) -> Body:
    return {"step_id": step["step_id"], "turn_id": step["turn_id"]}


def _interrupt(plan: Plan, step: Body, kind: str, **more: Any) -> None:
    data = {**_names(step), "status": "interrupted", "interrupt_kind": kind, **more}
    plan.emit("step.interrupted", data, derived=True)


def _retire(plan: Plan, reason: str, turn_id: str | None = None) -> None:
    for name in plan.session.waiting:
        call = plan.session.calls[name]
        if turn_id not in (None, call.turn_id):
            continue
        if call.shown["kind"] == "authorization":
            data: Body = {"interrupt_id": name, "success": False, "error": None, "reason": reason}
            plan.emit("authorization.completed", data, derived=True)
        else:
            decision = decided("cancel", "layby", reason=reason)
            data = {"interrupt_id": name, "action": "cancel", "decision": decision}
            plan.emit("input.completed", data, derived=True)


def decided(action: str, by: str, **more: Any) -> Body:
    empty = {"note": None, "edited_args": None, "response": None, "reason": None}
    return {"action": action, "by": by, "at": NOW, **empty, **more}


def _step_started(plan: Plan, kind: str, data: Body, index: int) -> None:
    if plan.session.open_step:
        raise _illegal(plan, index)
    turn = plan.session.turn
    plan.emit(kind, {**data, "turn_id": turn and turn["turn_id"], "status": "running"})


def _step_ended(plan: Plan, kind: str, data: Body, index: int) -> None:
    step = plan.session.open_step
    if not step or step["step_id"] != data["step_id"]:
        raise _illegal(plan, index)
    plan.emit(kind, {**data, "turn_id": step["turn_id"], "status": kind.removeprefix("step.")})


def _session_ended(plan: Plan, kind: str, data: Body, index: int) -> None:
    step = plan.session.open_step
    if step and step["status"] == "running":
        _interrupt(plan, step, "unknown")
    _retire(plan, "session_ended")
    plan.emit(kind, data)


_EVENTS = {
    "turn.started": _turn_started,
    **dict.fromkeys(("turn.completed", "turn.failed", "turn.cancelled"), _turn_ended),
    "step.started": _step_started,
    **dict.fromkeys(("step.completed", "step.interrupted"), _step_ended),
    **dict.fromkeys(("session.completed", "session.failed"), _session_ended),
}


def _ask(plan: Plan, kind: str, data: Body, first: int) -> list[Body]:
    """Ask, or find it asked before: then tell of the first time, unless that was in this very batch."""
    session, asked = plan.session, _resolved(plan.session, kind, data)
    if known := session.calls.get(asked["interrupt_id"]):
        alike = all(known.shown[name] == asked[name] for name in ("tool_name", "args_digest", "run_id"))
        if not alike or (known.shown["kind"] == "authorization") != (kind == "authorization.required"):
            raise Refused(409, "interrupt-exists")
        told = {"seq": known.asked_seq, "type": kind, "interrupt_id": asked["interrupt_id"], "status": known.status}
        return [told] if known.asked_seq < first else []
    plan.emit(kind, asked)
    if session.mode == "turn" and session.turn and session.open_step:
        why = "authorization" if asked["kind"] == "authorization" else "approval"
        _interrupt(plan, session.open_step, why, interrupt_id=asked["interrupt_id"])
    plan.wait()
    return []


def _resolved(session: Session, kind: str, data: Body) -> Body:
    if kind == "authorization.required":
        args = {name: data[name] for name in ("auth_url", "scope") if name in data}
        own: Body = {"kind": "authorization", "tool_name": data["connection"], "tool_args": args, "options": []}
    else:
        what = data.get("kind", "approval")
        usual = ["respond", "reject"] if what == "question" else ["approve", "reject"]
        own = {"kind": what, "tool_name": data.get("tool_name", "question"), "tool_args": data.get("tool_args", {})}
        own["options"] = data.get("options", usual)
    asked = {name: value for name, value in data.items() if name != "expires_in_ms"} | own
    asked.setdefault("expires_at", in_ms(data.get("expires_in_ms", DAY_MS)))
    asked |= {"run_id": data.get("run_id", session.run_id), "thread_id": data.get("thread_id", session.thread_id)}
    return asked | {"args_digest": digest(own["tool_name"], own["tool_args"])}


# One call


def _call(plan: Plan, name: str, *, authorization: bool | None = None) -> Call:
    call = plan.session.calls.get(name)
    if not call or (authorization is not None and authorization != (call.shown["kind"] == "authorization")):
        raise Refused(404, "call-not-found")
    return call


def malformed(body: Body) -> bool:
    """Whether a decision has members that do not go together, whatever it is about."""
    action = body["action"]
    return ("edited_args" in body and action != "approve") or ("response" in body) != (action == "respond")


def decide(plan: Plan, name: str, body: Body) -> None:
    action = body["action"]
    call = _call(plan, name, authorization=False)
    if action not in call.shown["options"] or ("edited_args" in body and not call.shown["allow_edits"]):
        raise Refused(422, "invalid-request")
    if action == "respond" and call.shown["response_schema"] and not isinstance(body["response"], str):
        raise Refused(422, "invalid-request")  # the one schema that is used here asks for a string
    if any(body.get(where, call.shown[where]) != call.shown[where] for where in ("run_id", "thread_id")):
        raise Refused(409, "run-mismatch")
    decision = decided(action, plan.by["by"], **{n: body.get(n) for n in ("note", "edited_args", "response")})
    if _over(plan, call, action, decision):
        return
    if body.get("args_digest", call.shown["args_digest"]) != call.shown["args_digest"]:
        raise Refused(409, "stale-view")
    _close(plan, name, "input.completed", {"action": action, "decision": decision})


def authorize(plan: Plan, name: str, body: Body) -> None:
    call = _call(plan, name, authorization=True)
    action = "approve" if body["success"] else "reject"
    if not _over(plan, call, action, decided(action, plan.by["by"])):
        data = {"success": body["success"], "error": body.get("error")}
        _close(plan, name, "authorization.completed", data)


def _close(plan: Plan, name: str, kind: str, data: Body) -> None:
    event = plan.emit(kind, {"interrupt_id": name, **data})
    plan.idle_if_over()
    _outcome(plan, "applied", event["seq"], name)


def _outcome(plan: Plan, outcome: str, seq: int, name: str) -> None:
    plan.answer = lambda now: {"outcome": outcome, "seq": seq, "call": now.calls[name].own()}


def _over(plan: Plan, call: Call, action: str, decision: Body) -> bool:
    """Whether it was decided before, in the same way. Raises `Refused` where in another way, or where it is too
    late."""
    name, before = call.shown["interrupt_id"], call.shown["decision"]
    if before:
        alike = all(same(before[part], decision[part]) for part in ("action", "by", "edited_args", "response"))
        if not alike or call.via != plan.by.get("via"):
            raise Refused(409, "call-already-decided", call=call.own())
        _outcome(plan, "duplicate", call.decided_seq, name)
        return True
    if call.status == "EXPIRED":
        if not plan.session.ended and call.refusals < 10:
            plan.emit("input.refused", {"interrupt_id": name, "action": action, "reason": "expired"})
        raise Refused(410, "call-expired", call=call.own())
    return False


def _handed_out(call: Call) -> None:
    if call.shown["execution"] is None:
        raise Refused(409, "not-approved")


def claim(plan: Plan, name: str, body: Body) -> None:
    call = _open(plan, name)
    if call.state == "claimed":
        if call.shown["execution"]["owner"] != body["owner"]:
            raise Refused(409, "already-claimed")
        plan.renews = name
    elif call.state == "indeterminate":
        raise Refused(409, "outcome-unknown")
    else:
        data = {"attempt": call.attempt + 1, "owner": body["owner"], "lease_until": in_ms(body.get("lease_ms", 60_000))}
        plan.emit("action.claimed", {"interrupt_id": name, **data})

    def answer(now: Session) -> Body:
        shown = now.calls[name].own()
        edited = shown["decision"]["edited_args"]
        known = {part: shown["execution"][part] for part in ("attempt", "lease_until")}
        args = shown["tool_args"] if edited is None else edited
        return {**known, "tool_name": shown["tool_name"], "args": args, "decision": shown["decision"], "call": shown}

    plan.answer = answer


def _open(plan: Plan, name: str) -> Call:
    call = _call(plan, name)
    _handed_out(call)
    if call.status == "EXECUTED":
        raise Refused(409, "result-already-recorded")
    return call


def release(plan: Plan, name: str, body: Body) -> None:
    call = _open(plan, name)
    if call.released_seq and body["attempt"] == call.attempt:
        return _outcome(plan, "duplicate", call.released_seq, name)
    if not call.attempt or body["attempt"] != call.valid:
        raise Refused(409, "fenced")
    event = plan.emit("action.released", {"interrupt_id": name, "attempt": body["attempt"]})
    return _outcome(plan, "applied", event["seq"], name)


def result(plan: Plan, name: str, body: Body) -> None:
    call = _call(plan, name)
    _handed_out(call)
    if "attempt" not in body and call.attempt:
        raise Refused(422, "invalid-request")
    attempt, is_error = body.get("attempt", 0), body.get("is_error", False)
    if call.status == "EXECUTED":
        if attempt != call.attempt:
            raise Refused(409, "fenced")
        if not same([call.shown["result"], call.shown["is_error"]], [body["result"], is_error]):
            raise Refused(409, "result-already-recorded")
        return _outcome(plan, "duplicate", call.result_seq, name)
    if attempt != call.valid:
        raise Refused(409, "fenced")
    data = {"interrupt_id": name, "attempt": attempt, "result": body["result"], "is_error": is_error}
    event = plan.emit("action.result", data)
    return _outcome(plan, "applied", event["seq"], name)


def settle(plan: Plan, name: str, body: Body) -> None:
    call = _call(plan, name)
    if call.state != "indeterminate" or call.status != "APPROVED_EXECUTING":
        raise Refused(409, "not-indeterminate")
    data = {"interrupt_id": name, "attempt": call.attempt, "outcome": body["outcome"], "result": body.get("result")}
    event = plan.emit("action.settled", {**data, "note": body["note"]})
    _outcome(plan, "applied", event["seq"], name)


CALL_RULES = {"decision": decide, "claim": claim, "release": release, "result": result, "settle": settle}
