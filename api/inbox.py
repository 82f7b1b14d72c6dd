"""From the bytes of a WebSocket to whole text messages. The sans-I/O part of `websockets` judges the frames."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from starlette.types import Scope
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State

from api.budget import Budget
from eventstore.domain.errors import Overloaded

SLICE_BYTES: Final = 4 * 1024
"""What has arrived is looked at in such pieces: however small its messages are, few of them wait beyond those taken."""
_log: Final = logging.getLogger("layby.http.frames")
_log.setLevel(logging.ERROR)  # it tells of every connection that is closed


class Inbox:
    """What one peer has sent, and has not been taken.

    Its bytes count in the budget; those of a message that was taken are the taker's to give back.
    """

    def __init__(self, most: int, budget: Budget, scope: Scope) -> None:
        """`most` bytes may a message have. `scope`: in whose name the budget holds them."""
        self.frames: Protocol = Protocol(Side.SERVER, max_size=most, logger=_log)
        self.messages: deque[bytes] = deque()
        self.end: tuple[int, str] | None = None
        """Why nothing more is looked at: the code to close with, and the reason."""
        self.partial: int = 0
        """Bytes of a message that has not come to its end."""
        self.since: float = 0.0
        """When that one began."""
        self._raw: bytearray = bytearray()
        self._parts: bytearray = bytearray()
        self._budget: Budget = budget
        self._scope: Scope = scope

    def add(self, data: bytes) -> None:
        """More has arrived."""
        self._raw += data

    @property
    def idle(self) -> bool:
        """There is nothing to look at."""
        return not self._raw or self.end is not None

    def look(self, now: float) -> None:
        """Take the next piece apart."""
        piece = bytes(self._raw[:SLICE_BYTES])
        try:
            self._budget.take(self._scope, len(piece))
        except Overloaded as error:
            return self.finish(CloseCode.TRY_AGAIN_LATER, error.detail)
        del self._raw[:SLICE_BYTES]
        self.frames.receive_data(piece)
        whole = sum(self._take(event) for event in self.frames.events_received() if isinstance(event, Frame))
        if self.frames.state is not State.OPEN:  # the peer says goodbye, or has broken the rules
            self.finish(CloseCode.NORMAL_CLOSURE)
        before, self.partial = self.partial, len(self.frames.reader.buffer) + len(self._parts)
        if whole or not before:
            self.since = now
        self._budget.give(self._scope, len(piece) + before - self.partial - whole)
        return None

    def discard(self, data: bytes) -> bool:
        """Pass over all that arrived and this. True when the peer has said goodbye."""
        self.frames.receive_data(bytes(self._raw) + data)
        self.frames.events_received()
        self._raw.clear()
        return self.frames.close_rcvd is not None

    def finish(self, code: int, reason: str = "") -> None:
        """Look at nothing more; the first word counts."""
        self.end = self.end or (code, reason)

    def _take(self, frame: Frame) -> int:
        """The bytes of the message that this frame completes. Control frames are answered by the library."""
        if self.end is not None or frame.opcode not in (Opcode.TEXT, Opcode.CONT, Opcode.BINARY):
            return 0
        if frame.opcode is Opcode.BINARY:
            self.finish(CloseCode.UNSUPPORTED_DATA, "messages are text")
            return 0
        if not frame.fin:
            self._parts += frame.data
            return 0
        message = bytes(self._parts + frame.data) if self._parts else bytes(frame.data)
        self._parts.clear()
        if not _is_utf8(message):
            self.finish(CloseCode.INVALID_DATA, "a message is not UTF-8")
            return 0
        self.messages.append(message)
        return len(message)


def _is_utf8(text: bytes) -> bool:
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True
