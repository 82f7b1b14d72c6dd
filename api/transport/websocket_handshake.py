"""From a request to a WebSocket: what a client must ask for, and what it is answered (RFC 6455, section 4)."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.types import Scope
from websockets.utils import accept_key

from api.http.headers import header
from api.http.problems import WEBSOCKET_VERSION
from eventstore.domain.errors import InvalidRequest, UpgradeRequired

WISH: Final = "layby.websocket"
"""The extension of a request that wishes to go on as a WebSocket. Whoever answers it with 101 puts the protocol that
goes on with the connection beside the headers, as `protocol`; any other answer passes the wish over."""
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{22}==", re.ASCII)

Fields = list[tuple[bytes, bytes]]


def wishes(scope: Scope) -> bool:
    """Whether a request asks for a WebSocket."""
    return WISH in scope.get("extensions", ())


def is_wish(method: bytes, http_version: str, fields: Fields) -> bool:
    """Whether the head of a request that wishes for some other protocol asks for a WebSocket."""
    wanted = b",".join(value for name, value in fields if name == b"upgrade").lower().split(b",")
    bodied = any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in fields
    )
    return method == b"GET" and http_version == "1.1" and not bodied and b"websocket" in map(bytes.strip, wanted)


def accept(request: Request, subprotocol: str) -> Fields:
    """The headers of the answer that switches. Raises `UpgradeRequired`, and `InvalidRequest` for a garbled wish, or
    for one that does not offer the subprotocol."""
    if not wishes(request.scope) or header(request, "Sec-WebSocket-Version") != WEBSOCKET_VERSION:
        raise UpgradeRequired(
            f"this route is a WebSocket of version {WEBSOCKET_VERSION}, with the subprotocol {subprotocol}"
        )
    key = (header(request, "Sec-WebSocket-Key") or "").strip()
    if not _KEY.fullmatch(key):
        raise InvalidRequest.header("Sec-WebSocket-Key", "must be 16 bytes in base64")
    offered = (header(request, "Sec-WebSocket-Protocol") or "").split(",")
    if subprotocol not in map(str.strip, offered):
        raise InvalidRequest.header("Sec-WebSocket-Protocol", f"must offer {subprotocol}")
    return [
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-accept", accept_key(key).encode()),
        (b"sec-websocket-protocol", subprotocol.encode()),
    ]
