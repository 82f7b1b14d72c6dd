"""From what a publisher sent to what is stored: a request for a decision, with every default resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from eventstore.domain import state_snapshot
from eventstore.domain.commands import NewEvent
from eventstore.domain.draft import Context
from eventstore.domain.errors import FieldError, InvalidRequest
from eventstore.domain.field_aliases import understood
from eventstore.domain.schemas import response_schema
from eventstore.domain.session import Session
from eventstore.domain.values import json_text, timestamps
from eventstore.domain.values.field_types import InterruptId, Name, field_errors, instant

_Model = TypeVar("_Model", bound=BaseModel)
Option = Literal["approve", "reject", "respond"]
_DEFAULT_OPTIONS: dict[str, list[Option]] = {
    "approval": ["approve", "reject"],
    "question": ["respond", "reject"],
}
_IN_SNAPSHOT = ("interrupt_id", "tool_name", "tool_args", "expires_at", "expires_in_ms", "run_id", "thread_id")


class _Ask(BaseModel):
    """Fields that both kinds of request share. Unknown ones are the publisher's own and are kept."""

    # Deferred: see `state_snapshot`.
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, defer_build=True)

    interrupt_id: InterruptId
    expires_at: str | None = None
    expires_in_ms: int | None = None
    run_id: Name | None = None
    thread_id: Name | None = None
    message: Any = None


class _InputRequested(_Ask):
    kind: Literal["approval", "question"] | None = None
    tool_name: Annotated[Name, Field(min_length=1)] | None = None
    tool_args: dict[str, Any] | None = None
    options: Annotated[list[Option], Field(min_length=1)] | None = None
    response_schema: Any = None
    allow_edits: bool | None = None
    idempotent: bool | None = None


def _scope(value: Any) -> Any:
    words = cast("list[Any]", value if isinstance(value, list) else [value])
    if value is not None and not all(isinstance(word, str) for word in words):
        raise ValueError("must be a string or an array of strings")
    return cast("Any", value)


class _AuthorizationRequired(_Ask):
    connection: Annotated[Name, Field(min_length=1)]
    auth_url: str | None = None
    scope: Annotated[Any, AfterValidator(_scope)] = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request ready to be stored. `deadline` raises `InvalidRequest` only when it is really needed."""

    data: dict[str, Any]
    expires_at: str | None
    expires_in_ms: int | None
    pointer: str
    sent: dict[str, str]
    cost: int = 0
    """What its schema took to compile, in bytes of compiled patterns."""

    def deadline(self, context: Context) -> int:
        """When the call falls due, in milliseconds: what was asked for, within what the operator allows."""
        if self.expires_at is not None:
            name, due = "expires_at", timestamps.parse(self.expires_at)
        elif self.expires_in_ms is not None:
            name, due = "expires_in_ms", context.now + self.expires_in_ms
        else:
            return context.now + context.policy.default_expiry_ms
        place = f"{self.pointer}/{self.sent.get(name, name)}"
        if due <= context.now:
            raise InvalidRequest.body(place, "the deadline has passed already; give one in the future")
        if due > context.now + context.policy.max_expiry_ms:
            raise InvalidRequest.body(
                place, f"the deadline is further away than {context.policy.max_expiry_ms} ms, the maximum"
            )
        return due


def read(event: NewEvent, session: Session) -> Asked:
    """Check a request and resolve its defaults. Raises `InvalidRequest` or `InvalidSnapshot`."""
    pointer = f"{event.pointer}/data"
    data, sent = understood(event.type, event.data, pointer)
    if event.type == "authorization.required":
        return _authorization(data, sent, pointer, session)
    snapshot, data = data.get("state_snapshot"), _without(data, "state_snapshot")
    if snapshot is not None:
        data = _with_snapshot(snapshot, data, sent, pointer)
    return _input(data, sent, pointer, session)


def _without(data: dict[str, Any], gone: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != gone}


def _with_snapshot(document: Any, data: dict[str, Any], sent: dict[str, str], pointer: str) -> dict[str, Any]:
    if extra := [name for name in _IN_SNAPSHOT if data.get(name) is not None]:
        text = "is in the state_snapshot already; leave it out"
        raise InvalidRequest.of([FieldError(text, f"{pointer}/{sent.get(name, name)}") for name in extra])
    name = sent.get("state_snapshot", "state_snapshot")
    snapshot = state_snapshot.parse_request(document, f"{pointer}/{name}")
    sent["expires_at"] = f"{name}/pending_tool_call/expires_at"
    call, run = snapshot.pending_tool_call, snapshot.run_context
    return {
        **data,
        "interrupt_id": call.interrupt_id,
        "tool_name": call.tool_name,
        "tool_args": call.tool_args,
        "expires_at": call.expires_at,
        "run_id": run.run_id,
        "thread_id": run.thread_id,
    }


def _input(data: dict[str, Any], sent: dict[str, str], pointer: str, session: Session) -> Asked:
    ask = _checked(_InputRequested, data, sent, pointer)
    kind = ask.kind or "approval"
    if kind == "approval":
        _require({"tool_name": ask.tool_name, "tool_args": ask.tool_args}, sent, pointer)
    options = ask.options or _DEFAULT_OPTIONS[kind]
    _check_options(options, pointer)
    cost = _check_schema(ask, sent, pointer)
    known = {
        "kind": kind,
        "message": ask.message,
        "options": options,
        "response_schema": ask.response_schema,
        "allow_edits": bool(ask.allow_edits),
        "idempotent": bool(ask.idempotent),
    }
    tool_args = {} if ask.tool_args is None else ask.tool_args
    asked = _asked(ask, known, (ask.tool_name or "question", tool_args), JsonLocation(sent, pointer), session)
    return replace(asked, cost=cost)


def _check_options(options: list[Option], pointer: str) -> None:
    if len(set(options)) != len(options):
        raise InvalidRequest.body(f"{pointer}/options", "names an option twice")


def _check_schema(ask: _InputRequested, sent: dict[str, str], pointer: str) -> int:
    """What the schema for answers cost to compile."""
    try:
        return 0 if ask.response_schema is None else response_schema.check(ask.response_schema)
    except response_schema.Unfit as error:
        name = sent.get("response_schema", "response_schema")
        raise InvalidRequest.body(f"{pointer}/{name}", str(error)) from None


def _authorization(data: dict[str, Any], sent: dict[str, str], pointer: str, session: Session) -> Asked:
    ask = _checked(_AuthorizationRequired, data, sent, pointer)
    given = {"auth_url": ask.auth_url, "scope": ask.scope}
    tool_args = {name: value for name, value in given.items() if value is not None}
    known = {"connection": ask.connection, "message": ask.message, "kind": "authorization", "options": list[str]()}
    return _asked(ask, {**tool_args, **known}, (ask.connection, tool_args), JsonLocation(sent, pointer), session)


@dataclass(frozen=True, slots=True)
class JsonLocation:
    sent: dict[str, str]
    pointer: str


def _asked(
    ask: _Ask, known: dict[str, Any], tool: tuple[str, dict[str, Any]], place: JsonLocation, session: Session
) -> Asked:
    tool_name, tool_args = tool
    if ask.expires_at is not None and ask.expires_in_ms is not None:
        name = place.sent.get("expires_in_ms", "expires_in_ms")
        raise InvalidRequest.body(f"{place.pointer}/{name}", "is one too many beside expires_at; send one of them")
    if ask.expires_at is not None:
        _check_time(ask.expires_at, place)
    stored = {
        "interrupt_id": ask.interrupt_id,
        "tool_name": tool_name,
        "tool_args": tool_args,
        "expires_at": "",  # resolved when the request turns out to be a new one
        "run_id": session.run_id if ask.run_id is None else ask.run_id,
        "thread_id": session.thread_id if ask.thread_id is None else ask.thread_id,
        **{name: value for name, value in known.items() if value is not None},
        "args_digest": json_text.digest({"tool_name": tool_name, "tool_args": tool_args}),
    }
    own = {name: value for name, value in (ask.model_extra or {}).items() if name not in stored}
    return Asked({**stored, **own}, ask.expires_at, ask.expires_in_ms, place.pointer, place.sent)


def _check_time(value: str, place: JsonLocation) -> None:
    try:
        instant(value)
    except ValueError as error:
        name = place.sent.get("expires_at", "expires_at")
        raise InvalidRequest.body(f"{place.pointer}/{name}", str(error)) from None


def _require(values: dict[str, Any], sent: dict[str, str], pointer: str) -> None:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise InvalidRequest.of([FieldError("is required", f"{pointer}/{sent.get(name, name)}") for name in missing])


def _checked(model: type[_Model], data: dict[str, Any], sent: dict[str, str], pointer: str) -> _Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidRequest.of(field_errors(error, pointer, sent)) from None
