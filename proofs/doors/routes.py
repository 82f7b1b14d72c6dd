"""Every route, what it needs, and a request for it: written from the protocol, not from the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proofs.client import is_object
from proofs.line import UPGRADE

SCOPES = ("publish", "read", "decide", "execute", "admin", "act_as")
ANY, NONE = "any key", "no key"


@dataclass(frozen=True, slots=True)
class Route:
    """One request. In its path and body SID, IID and TOKEN stand for those of a session that waits."""

    method: str
    template: str
    """As the OpenAPI document names it."""
    scope: str
    path: str
    body: Any = None
    stream: bool = False
    headers: Mapping[str, str] | None = None

    def at(self, names: dict[str, str]) -> tuple[str, Any]:
        """Its path and body for this session."""
        return _named(self.path, names), _named(self.body, names)

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def _named(thing: Any, names: dict[str, str]) -> Any:
    if isinstance(thing, str):
        for word, name in names.items():
            thing = thing.replace(word, name)
        return thing
    if is_object(thing):
        return {key: _named(value, names) for key, value in thing.items()}
    return thing


_S, _C = "/v1/sessions/{session_id}", "/v1/sessions/{session_id}/calls/{interrupt_id}"
_SP, _CP = "/v1/sessions/SID", "/v1/sessions/SID/calls/IID"
_Z = "/zhin/v1"

ROUTES = (
    Route("GET", "/healthz", NONE, "/healthz"),
    Route("GET", "/readyz", NONE, "/readyz"),
    Route("GET", f"{_Z}/health", NONE, f"{_Z}/health"),
    Route("GET", "/metrics", ANY, "/metrics"),
    Route("GET", "/openapi.json", ANY, "/openapi.json"),
    Route("POST", "/v1/sessions", "publish", "/v1/sessions", {}),
    Route("POST", f"{_S}/messages", "publish", f"{_SP}/messages", {"continuation_token": "TOKEN", "message": "m"}),
    Route("POST", f"{_S}/events", "publish", f"{_SP}/events", {"type": "a.b"}),
    Route("GET", f"{_S}/publish", "publish", f"{_SP}/publish?producer=p", stream=True, headers=UPGRADE),
    Route("GET", "/v1/sessions", "read", "/v1/sessions"),
    Route("GET", _S, "read", _SP),
    Route("GET", f"{_S}/steps", "read", f"{_SP}/steps"),
    Route("GET", f"{_S}/calls", "read", f"{_SP}/calls"),
    Route("GET", f"{_S}/events", "read", f"{_SP}/events"),
    Route("GET", f"{_S}/stream", "read", f"{_SP}/stream", stream=True),
    Route("GET", "/v1/stream", "read", "/v1/stream", stream=True),
    Route("GET", "/v1/calls", "read", "/v1/calls"),
    Route("GET", _C, "read", _CP),
    Route("GET", f"{_C}/state_snapshot", "read", f"{_CP}/state_snapshot"),
    Route("POST", f"{_C}/claim", "execute", f"{_CP}/claim", {"owner": "w"}),
    Route("POST", f"{_C}/release", "execute", f"{_CP}/release", {"attempt": 99}),
    Route("POST", f"{_C}/result", "execute", f"{_CP}/result", {"attempt": 99, "result": 1}),
    Route("POST", f"{_C}/settle", "admin", f"{_CP}/settle", {"outcome": "executed", "note": "n"}),
    Route("POST", f"{_C}/decision", "decide", f"{_CP}/decision", {"action": "approve", "args_digest": "sha256:x"}),
    Route(
        "POST",
        f"{_S}/authorizations/{{interrupt_id}}/complete",
        "decide",
        f"{_SP}/authorizations/IID/complete",
        {"success": True},
    ),
    Route("POST", f"{_Z}/session", "publish", f"{_Z}/session", {"message": "m"}),
    Route(
        "POST", f"{_Z}/session/{{id}}", "publish", f"{_Z}/session/SID", {"continuationToken": "TOKEN", "message": "m"}
    ),
    Route("GET", f"{_Z}/session/{{id}}/stream", "read", f"{_Z}/session/SID/stream", stream=True),
    Route(
        "POST",
        f"{_Z}/session/{{id}}/input",
        "decide",
        f"{_Z}/session/SID/input",
        {"requestId": "no-IID", "approved": True},
    ),
    Route(
        "POST",
        f"{_Z}/authorization/{{requestId}}/complete",
        "decide",
        f"{_Z}/authorization/IID/complete",
        {"success": True},
    ),
    Route("DELETE", _S, "admin", "/v1/sessions/ses_nobody"),
)
"""None changes what the next one is asked about: whoever is let in is refused for another reason, or appends."""
