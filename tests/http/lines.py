"""Lines of publishers, as the most used client library opens them, and as a socket alone."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from proofs.line import PROTOCOL, frame

EVENT = {"type": "a.b"}


class Line:
    """A line to a session: messages in, answers out."""

    def __init__(self, url: str, sid: str, key: str = "", **more: Any) -> None:
        query = f"?producer={more.pop('producer')}" if "producer" in more else ""
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
        target = f"{url.replace('http', 'ws', 1)}/v1/sessions/{sid}/publish{query}"
        options = {"subprotocols": [PROTOCOL], "compression": None, "open_timeout": 20, "max_size": None, **more}
        self._opening = connect(target, additional_headers=headers, **options)

    def __enter__(self) -> Line:
        self.socket: ClientConnection = self._opening.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opening.__exit__(*error)

    @property
    def headers(self) -> Headers:
        """Of the answer to the handshake."""
        assert self.socket.response is not None
        return self.socket.response.headers

    def say(self, *ids: str, events: Any = (EVENT,), **more: Any) -> None:
        for name in ids:
            self.socket.send(json.dumps({"id": name, "events": list(events), **more}))

    def hear(self, count: int = 1) -> list[dict[str, Any]]:
        return [json.loads(self.socket.recv(timeout=20)) for _ in range(count)]

    def ask(self, message: Any) -> dict[str, Any]:
        """One message, whatever it is, and its answer."""
        self.socket.send(message if isinstance(message, str) else json.dumps(message))
        return self.hear()[0]


def goodbye(closed: pytest.ExceptionInfo[ConnectionClosed]) -> int:
    """The code of the goodbye that the server said, which must not be missing."""
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def refused(url: str, sid: str, key: str = "", **more: Any) -> tuple[int, dict[str, Any], Any]:
    """Status, problem and headers of a handshake that must fail."""
    try:
        with Line(url, sid, key, **more):
            raise AssertionError("the line was opened")
    except InvalidStatus as error:
        answer = error.response
        return answer.status_code, json.loads(answer.body), answer.headers


HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
)


class Wire:
    """A connection on which anything can be said, and nothing needs to be read."""

    def __init__(self, url: str, received: int | None = None) -> None:
        """`received`: bytes of its receive buffer."""
        address = urlsplit(url)
        self.socket = socket.socket()
        if received:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
        self.socket.settimeout(20)
        self.socket.connect((address.hostname, address.port))
        self.heard = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def upgrade(self, path: str) -> str:
        """The head of the answer."""
        self.socket.sendall(HANDSHAKE.format(path=path).encode())
        return self.head()

    def head(self) -> str:
        while b"\r\n\r\n" not in self.heard:
            self.heard += self._read()
        head, _, self.heard = self.heard.partition(b"\r\n\r\n")
        return head.decode()

    def _read(self) -> bytes:
        data = self.socket.recv(65_536)
        if not data:
            raise EOFError
        return data

    def send(self, payload: bytes, kind: int = 1, *, last: bool = True) -> None:
        self.socket.sendall(frame(payload, kind, last=last))

    def frame(self) -> tuple[int, bytes]:
        """The next frame of the server: its kind and its payload."""
        while True:
            if len(self.heard) >= 2:
                size, at = self.heard[1], 2
                if size >= 126:
                    at = 4 if size == 126 else 10
                    size = int.from_bytes(self.heard[2:at])
                if len(self.heard) >= at + size:
                    kind, payload = self.heard[0] & 15, self.heard[at : at + size]
                    self.heard = self.heard[at + size :]
                    return kind, payload
            self.heard += self._read()

    def closing(self) -> int:
        """The code of the goodbye, which must be the next that is said."""
        kind, payload = self.frame()
        assert kind == 8, (kind, payload)
        return int.from_bytes(payload[:2])
