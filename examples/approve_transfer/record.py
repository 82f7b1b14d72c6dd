"""What the agent writes to its session, and how it is read back: the log is the only memory between processes.

A *step* is one run of the model. Each step is recorded in one atomic batch, together with the Pydantic AI messages
that it added, so the log always holds a whole number of steps and the history is the sum of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import DeferredToolRequests, ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from examples.approve_transfer.agent import RunResult
from examples.approve_transfer.layby_client import Event, Layby, Refused, Session

TURN_ID: Final = "turn-1"  # one message, one turn: this agent ends its session with its answer
_READ: Final = "message.*,turn.*,actions.requested,session.completed,session.failed"
# What a process hears when another one has recorded the same step before it.
_RECORDED_ALREADY: Final = frozenset({"idempotency-key-reused", "illegal-transition"})


@dataclass(frozen=True)
class Action:
    """A tool call of the model that waits for a decision."""

    interrupt_id: str
    tool_call_id: str


@dataclass(frozen=True)
class Log:
    """A session as its events tell it."""

    prompt: str
    turn_started: bool
    steps: int
    history: list[ModelMessage]
    actions: list[Action]
    said: str | None
    ended: str | None

    @classmethod
    def of(cls, events: Sequence[Event]) -> Log:
        steps = [event for event in events if "model_messages" in event.data]
        messages = [message for step in steps for message in step.data["model_messages"]]
        asked: list[dict[str, Any]] = steps[-1].data.get("actions", []) if steps else []
        said = [event.data["text"] for event in events if event.type == "message.completed"]
        return cls(
            prompt=next(event.data["text"] for event in events if event.type == "message.received"),
            turn_started=any(event.type == "turn.started" for event in events),
            steps=len(steps),
            history=ModelMessagesTypeAdapter.validate_python(messages),
            actions=[Action(action["interrupt_id"], action["tool_call_id"]) for action in asked],
            said=said[-1] if said else None,
            ended=next((event.type for event in events if event.type.startswith("session.")), None),
        )


async def read_log(layby: Layby, session_id: str) -> Log:
    return Log.of(await layby.events(session_id, _READ))


async def record_turn(layby: Layby, session_id: str) -> None:
    turn = {"type": "turn.started", "data": {"turn_id": TURN_ID}}
    await layby.publish(session_id, [turn], key=f"{session_id}/{TURN_ID}/started")


async def record_step(layby: Layby, session: Session, log: Log, run: RunResult, expires_in_ms: int | None) -> Log:
    """Record what the run of the model came to. Gives the log as it stands afterwards."""
    if isinstance(run.output, DeferredToolRequests):
        events = _asking(session, run, run.output, expires_in_ms)
    else:
        events = _ending(run, run.output)
    try:
        await layby.publish(session.session_id, events, key=f"{session.session_id}/{TURN_ID}/step-{log.steps + 1}")
    except Refused as refused:
        after = await read_log(layby, session.session_id)
        if refused.slug not in _RECORDED_ALREADY or after.steps == log.steps:
            raise
        # Another process was faster. A model need not say the same twice; what is recorded is what counts.
        return after
    return await read_log(layby, session.session_id)


def _asking(
    session: Session, run: RunResult, requests: DeferredToolRequests, expires_in_ms: int | None
) -> list[dict[str, Any]]:
    """The turn stays open, and the session parks until each of the calls is decided."""
    text = _text(run)
    events = [_event("message.completed", role="assistant", text=text)] if text else []
    actions, calls = list[dict[str, Any]](), list[dict[str, Any]]()
    for call in requests.approvals:
        # Some models count their calls anew in each turn: with the turn it is unique in the session. It is
        # recorded together with the history that it belongs to, so it is the same for every later process.
        interrupt_id = f"{TURN_ID}.{call.tool_call_id}"
        arguments = call.args_as_dict()
        actions.append(
            {
                "interrupt_id": interrupt_id,
                "tool_call_id": call.tool_call_id,
                "tool_name": call.tool_name,
                "tool_args": arguments,
            }
        )
        asked = {
            "interrupt_id": interrupt_id,
            "tool_name": call.tool_name,
            "tool_args": arguments,
            "message": text or None,
            "allow_edits": True,
            "idempotent": False,
            "run_id": session.run_id,
            "thread_id": session.thread_id,
            "expires_in_ms": expires_in_ms,
        }
        calls.append({"type": "input.requested", "data": asked})
    return [*events, _event("actions.requested", actions=actions, model_messages=_new_messages(run)), *calls]


def _ending(run: RunResult, answer: str) -> list[dict[str, Any]]:
    return [
        _event("message.completed", role="assistant", text=answer, model_messages=_new_messages(run)),
        _event("turn.completed"),
        {"type": "session.completed"},
    ]


def _event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"turn_id": TURN_ID, **data}}


def _text(run: RunResult) -> str:
    last = run.all_messages()[-1]
    return (last.text or "") if isinstance(last, ModelResponse) else ""


def _new_messages(run: RunResult) -> Any:
    return ModelMessagesTypeAdapter.dump_python(run.new_messages(), mode="json")
