"""How a stream looks: NDJSON or SSE, over the same events. Stored lines go out as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from api.http.content_negotiation import prefers
from eventstore.domain.values import json_text

NDJSON_TYPE: Final = "application/x-ndjson"
SSE_TYPE: Final = "text/event-stream"


class Encoder(Protocol):
    """One form of a stream."""

    media_type: str
    heartbeat: bytes

    def event(self, identity: str | int, kind: str, line: bytes) -> bytes:
        """One event: `identity` is what a client resumes after, `line` its JSON."""
        ...

    def plain(self, lines: Sequence[bytes]) -> bytes | None:
        """All of these events at once, where nothing stands between their lines; else they are told one by one."""
        ...

    def end(self, reason: str, next_from: int) -> bytes:
        """The last thing on a stream that ends by rule."""
        ...


class Ndjson:
    """One event a line; an empty line is a heartbeat."""

    media_type: str = NDJSON_TYPE
    heartbeat: bytes = b"\n"

    def event(self, identity: str | int, kind: str, line: bytes) -> bytes:
        return line + b"\n"

    def plain(self, lines: Sequence[bytes]) -> bytes | None:
        return b"\n".join([*lines, b""])

    def end(self, reason: str, next_from: int) -> bytes:
        return json_text.dumps({"end": {"reason": reason, "next_from": next_from}}).encode() + b"\n"


class Sse:
    """One event a frame; a comment is a heartbeat."""

    media_type: str = SSE_TYPE
    heartbeat: bytes = b":\n\n"

    def event(self, identity: str | int, kind: str, line: bytes) -> bytes:
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(identity).encode(), kind.encode(), line)

    def plain(self, lines: Sequence[bytes]) -> bytes | None:
        return None

    def end(self, reason: str, next_from: int) -> bytes:
        return b"event: end\ndata: %s\n\n" % json_text.dumps({"reason": reason, "next_from": next_from}).encode()


NDJSON: Final[Encoder] = Ndjson()
SSE: Final[Encoder] = Sse()


def chosen(accept: str) -> Encoder:
    """SSE for who asks for it; else NDJSON."""
    return SSE if prefers(accept, SSE_TYPE, NDJSON_TYPE) else NDJSON
