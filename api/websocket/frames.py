"""From the bytes of a WebSocket to whole text messages. The sans-I/O part of `websockets` judges all but plain ones."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from starlette.types import Scope
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State

from api.http.body_budget import Budget
from eventstore.domain.errors import Overloaded

SLICE_BYTES: Final = 4 * 1024
"""What has arrived is looked at in such pieces: however small its messages are, few of them wait beyond those taken."""
LARGE_BYTES: Final = 64 * 1024
"""Larger messages are unmasked by the library, in C."""
_WHOLE_TEXT: Final = 0x81
_MASKED: Final = 0x80
_TWO_BYTES: Final = 126
"""In place of a size: it follows in two bytes. What is larger: in eight."""
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
        self._most: int = most
        self._owed: int = 0  # bytes of the frame that the library is in the middle of
        self._raw: bytearray = bytearray()
        self._parts: bytearray = bytearray()
        self._budget: Budget = budget
        self._scope: Scope = scope

    def add(self, data: bytes) -> None:
        """More has arrived."""
        self._raw += data

    @property
    def empty(self) -> bool:
        """There is nothing that was not looked at, or passed over."""
        return not self._raw

    @property
    def idle(self) -> bool:
        """There is nothing to look at."""
        return self.end is not None or not self._raw or not (self._owed or _bounds(self._raw, 0))

    def look(self, now: float) -> None:
        """Take the next piece apart."""
        try:
            if self._owed or self.frames.current_size is not None or not self._take_texts():
                self._judge(now)
        except Overloaded as error:
            self.finish(CloseCode.TRY_AGAIN_LATER, error.detail)

    def _take_texts(self) -> bool:
        """Whole messages of one frame each, as nearly all are: taken here, in less than half of the time.

        False if nothing was taken: whatever else it is, the library judges it. Raises `Overloaded`.
        """
        raw, at = self._raw, 0
        while at < SLICE_BYTES and (bounds := _plain_text(raw, at)):
            begin, end = bounds
            message = _unmasked(raw[begin - 4 : begin], raw[begin:end])
            if len(message) > self._most or not _is_utf8(message):
                break
            self._budget.take(self._scope, len(message))
            self.messages.append(message)
            at = end
        del raw[:at]
        return at > 0

    def _judge(self, now: float) -> None:
        """Give the library the next frame, or what has come of it, and not a byte of the one behind it.

        Raises `Overloaded`.
        """
        if not self._owed and (bounds := _bounds(self._raw, 0)):
            self._owed = bounds[1]
        piece = bytes(self._raw[: min(self._owed, SLICE_BYTES)])
        self._budget.take(self._scope, len(piece))
        del self._raw[: len(piece)]
        self._owed -= len(piece)
        self.frames.receive_data(piece)
        whole = sum(self._take(event) for event in self.frames.events_received() if isinstance(event, Frame))
        if self.frames.state is not State.OPEN:  # the peer says goodbye, or has broken the rules
            self.finish(CloseCode.NORMAL_CLOSURE)
        before, self.partial = self.partial, len(self.frames.reader.buffer) + len(self._parts)
        if whole or not before:
            self.since = now
        self._budget.give(self._scope, len(piece) + before - self.partial - whole)

    def discard(self) -> bool:
        """Pass over the next piece of what has arrived. True when the peer has said goodbye."""
        self.frames.receive_data(bytes(self._raw[:SLICE_BYTES]))
        self.frames.events_received()
        del self._raw[:SLICE_BYTES]
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


def _bounds(raw: bytearray, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame begins that begins here, and where it ends (RFC 6455, section 5.2). None as long
    as its head has not come."""
    if len(raw) < at + 2:
        return None
    size, begin = raw[at + 1] & ~_MASKED, at + 2
    if size >= _TWO_BYTES:
        begin += 2 if size == _TWO_BYTES else 8
        size = int.from_bytes(raw[at + 2 : begin])
    if raw[at + 1] & _MASKED:
        begin += 4
    return (begin, begin + size) if begin <= len(raw) else None


def _plain_text(raw: bytearray, at: int) -> tuple[int, int] | None:
    """The same of a message in one frame, masked as those of clients are, that has come and is not large."""
    if len(raw) > at and raw[at] == _WHOLE_TEXT and (bounds := _bounds(raw, at)):
        begin, end = bounds
        if raw[at + 1] & _MASKED and end <= len(raw) and end - begin <= LARGE_BYTES:
            return bounds
    return None


def _unmasked(mask: bytearray, payload: bytearray) -> bytes:
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)


def _is_utf8(text: bytes) -> bool:
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True
