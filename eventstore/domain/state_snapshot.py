"""The version 2 `state_snapshot` document: what a parked run is resumed from. Strict, with no silent repair."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventstore.domain.errors import FieldError, InvalidSnapshot
from eventstore.domain.values.field_types import NAME_MAX, Instant, InterruptId, field_errors

Status = Literal["PENDING_APPROVAL", "APPROVED_EXECUTING", "EXECUTED", "REJECTED", "EXPIRED"]


class _Strict(BaseModel):
    # Deferred: a validator is made when it is first needed, so that no start, and no command, waits for all of them.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Decision(_Strict):
    """What was decided, by whom and when."""

    action: Literal["approve", "reject", "respond", "cancel"]
    by: str
    at: Instant
    note: str | None
    edited_args: dict[str, Any] | None
    response: Any
    reason: str | None


class PendingToolCall(_Strict):
    """The call as it stands. `result` is any JSON; every field must be there."""

    interrupt_id: InterruptId
    tool_name: str = Field(min_length=1)
    tool_args: dict[str, Any]
    status: Status
    expires_at: Instant
    decision: Decision | None
    result: Any
    updated_at: Instant


class RunContext(_Strict):
    """The run that asked."""

    thread_id: str
    run_id: str


class StateSnapshot(_Strict):
    """The whole document."""

    version: Literal[2]
    pending_tool_call: PendingToolCall
    run_context: RunContext


def parse(document: Any, pointer: str = "") -> StateSnapshot:
    """The document, if it is one. Raises `InvalidSnapshot`, whose errors point below `pointer`."""
    try:
        return StateSnapshot.model_validate(document)
    except ValidationError as error:
        raise InvalidSnapshot.of(field_errors(error, pointer, document="a state_snapshot")) from None


def parse_request(document: Any, pointer: str) -> StateSnapshot:
    """A document that asks for a decision: still pending, nothing decided, no result."""
    snapshot = parse(document, pointer)
    call, errors = snapshot.pending_tool_call, list[FieldError]()
    if call.status != "PENDING_APPROVAL":
        errors.append(FieldError("must be PENDING_APPROVAL to be asked for", f"{pointer}/pending_tool_call/status"))
    if call.decision is not None:
        errors.append(FieldError("must be null to be asked for", f"{pointer}/pending_tool_call/decision"))
    if call.result is not None:
        errors.append(FieldError("must be null to be asked for", f"{pointer}/pending_tool_call/result"))
    long = (
        ("pending_tool_call/tool_name", call.tool_name),
        ("run_context/thread_id", snapshot.run_context.thread_id),
        ("run_context/run_id", snapshot.run_context.run_id),
    )
    told = f"must be at most {NAME_MAX} characters"
    errors += [FieldError(told, f"{pointer}/{place}") for place, value in long if len(value) > NAME_MAX]
    if errors:
        raise InvalidSnapshot.of(errors)
    return snapshot
