"""The few calls of Layby's HTTP API that a publisher needs, and what to do when Layby does not answer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
from pydantic import BaseModel

LONGEST_WAIT_MS: Final = 30_000
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# The request may or may not have arrived. What is sent again carries the same key, or is safe to repeat by nature.
_NO_ANSWER: Final = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
_TRY_AGAIN: Final = frozenset({502, 503, 504})

log = logging.getLogger(__name__)


class Unreachable(Exception):
    """Layby gave no answer for as long as we were ready to try."""


class Refused(Exception):
    """Layby answered with a problem; `slug` is its name."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.status = status
        self.slug = str(problem.get("type", "")).rpartition("/")[2]


class _TryAgain(Exception):
    """No answer, or one that asks for patience."""

    def __init__(self, why: str, retry_after: str = "") -> None:
        super().__init__(why)
        self.after_s = int(retry_after) if retry_after.isdecimal() else None


class Session(BaseModel):
    session_id: str
    status: str
    seq: int
    thread_id: str
    run_id: str


class Event(BaseModel):
    seq: int
    type: str
    by: str
    data: dict[str, Any]


class Decision(BaseModel):
    action: str
    by: str
    note: str | None = None
    edited_args: dict[str, Any] | None = None
    reason: str | None = None


class Execution(BaseModel):
    state: str


class Call(BaseModel):
    session_id: str
    interrupt_id: str
    status: str
    tool_name: str
    tool_args: dict[str, Any]
    args_digest: str
    expires_at: datetime
    decision: Decision | None = None
    execution: Execution | None = None
    result: Any = None
    is_error: bool = False

    @property
    def reference(self) -> str:
        """Names the call to the outside world, the same in every attempt at it."""
        return f"{self.session_id}/{self.interrupt_id}"


class Claim(BaseModel):
    attempt: int
    lease_until: datetime
    args: dict[str, Any]


class Layby:
    """A client that repeats what got no answer, for at most `patience_s`."""

    def __init__(self, url: str, *, key: str | None = None, patience_s: float = 60) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(10, read=LONGEST_WAIT_MS / 1000 + 10)
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)
        self._patience_s = patience_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def create(self, session_id: str, *, agent: str, message: str) -> None:
        body = {"session_id": session_id, "agent": agent, "message": message}
        await self._post("/v1/sessions", body, key=f"{session_id}/create")

    async def session(self, session_id: str) -> Session:
        return Session.model_validate(await self._get(_session(session_id)))

    async def publish(self, session_id: str, events: list[dict[str, Any]], *, key: str) -> None:
        """Append these events, all or none of them."""
        await self._post(f"{_session(session_id)}/events", events, key=key)

    async def events(self, session_id: str, types: str) -> list[Event]:
        """All events of these types."""
        events, start = list[Event](), 1
        while start:
            page = await self._get(f"{_session(session_id)}/events", {"from": start, "types": types})
            events += [Event.model_validate(event) for event in page["events"]]
            start = page["next_from"]
        return events

    async def call(self, session_id: str, interrupt_id: str, *, wait_ms: int = 0) -> Call:
        """The call; with `wait_ms`, as soon as it is decided or expired, or when the time is up."""
        return Call.model_validate(await self._get(_call(session_id, interrupt_id), {"wait_ms": wait_ms}))

    async def claim(self, call: Call, *, owner: str, lease_ms: int) -> Claim:
        """The right to run the tool, for one owner and for as long as the lease lasts.

        It goes without an Idempotency-Key on purpose. The owner may claim again anyway, and an answer replayed
        from hours ago would be a right that has long lapsed.
        """
        body = {"owner": owner, "lease_ms": lease_ms}
        return Claim.model_validate(await self._post(f"{_path(call)}/claim", body))

    async def release(self, call: Call, attempt: int) -> None:
        """Give the claim back: the tool was not started."""
        await self._post(f"{_path(call)}/release", {"attempt": attempt}, key=f"{call.reference}/release-{attempt}")

    async def record_result(self, call: Call, attempt: int, result: Any, *, is_error: bool = False) -> None:
        body = {"attempt": attempt, "result": result, "is_error": is_error}
        await self._post(f"{_path(call)}/result", body, key=f"{call.reference}/result-{attempt}")

    async def _get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        return await self._send(self._http.build_request("GET", path, params=params))

    async def _post(self, path: str, body: Any, *, key: str | None = None) -> Any:
        # Made once: a repetition must have the same bytes as the first.
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        return await self._send(self._http.build_request("POST", path, content=content, headers=headers))

    async def _send(self, request: httpx.Request) -> Any:
        request.headers["Accept"] = "application/json"
        give_up, tried = time.monotonic() + self._patience_s, 0
        while True:
            try:
                return await self._send_once(request)
            except _TryAgain as trouble:
                pause = trouble.after_s or min(_FIRST_PAUSE_S * 2**tried, _LONGEST_PAUSE_S)
                if time.monotonic() + pause > give_up:
                    raise Unreachable(f"{trouble}, tried for {self._patience_s:g} s") from None
                if not tried:
                    log.warning("Layby does not answer (%s): trying for %g s", trouble, self._patience_s)
                tried += 1
                await asyncio.sleep(pause)

    async def _send_once(self, request: httpx.Request) -> Any:
        try:
            answer = await self._http.send(request)
        except _NO_ANSWER as error:
            raise _TryAgain(str(error) or type(error).__name__) from None
        if answer.is_success:
            return answer.json()
        refused = Refused(answer.status_code, _problem(answer))
        if answer.status_code in _TRY_AGAIN or refused.slug == "request-in-progress":
            raise _TryAgain(str(refused), answer.headers.get("Retry-After", ""))
        raise refused


def _problem(answer: httpx.Response) -> dict[str, Any]:
    return answer.json() if answer.headers.get("Content-Type", "").startswith("application/problem+json") else {}


def _session(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _call(session_id: str, interrupt_id: str) -> str:
    return f"{_session(session_id)}/calls/{quote(interrupt_id, safe='')}"


def _path(call: Call) -> str:
    return _call(call.session_id, call.interrupt_id)
