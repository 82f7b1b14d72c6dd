"""From the bytes of a WebSocket to whole text messages: the sans-I/O part of `websockets` parses and judges frames."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, cast

from starlette.types import Scope
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side

from api.http.body_budget import BodyBudget
from eventstore.domain.errors import Overloaded

SLICE_BYTES: Final = 2 * 1024
"""Bytes that are parsed at once, for the library parses all that it is given. A frame has at least 6 bytes: so no more
than 341 messages wait to be taken. Large enough that the work for each slice does not count."""
_TEXT, _CONT, _BINARY, _PING = Opcode.TEXT, Opcode.CONT, Opcode.BINARY, Opcode.PING
_log: Final = logging.getLogger("layby.http.frames")
_log.setLevel(logging.ERROR)  # the library logs each connection that is closed


class FrameReader:
    """What one peer has sent, and has not been taken.

    Its bytes count in the budget; those of a message that was taken are the taker's to give back.
    """

    def __init__(self, most: int, budget: BodyBudget, scope: Scope) -> None:
        """A message has at most `most` bytes. The budget holds them for the request of this `scope`."""
        self.messages: deque[bytes] = deque()
        self.pongs: list[bytes] = []
        """Frames that answer the pings of the last slice."""
        self.end: tuple[int, str] | None = None
        """Why nothing more is parsed: the code to close with, and the reason."""
        self.partial: int = 0
        """Bytes of a message that has not come to its end."""
        self.since: float = 0.0
        """When that one began."""
        self._frames: Protocol = Protocol(Side.SERVER, max_size=most, logger=_log)
        self._raw: bytearray = bytearray()
        self._parts: bytearray = bytearray()
        self._budget: BodyBudget = budget
        self._scope: Scope = scope
        self._passing: int = 0  # bytes of the message that is passed over
        self._passed: Scope = {}  # for which the budget holds them: the request may be over

    def add(self, data: bytes) -> None:
        """More has arrived."""
        self._raw += data

    @property
    def empty(self) -> bool:
        """There is nothing that was not parsed, or passed over."""
        return not self._raw

    @property
    def idle(self) -> bool:
        """There is nothing to parse."""
        return self.end is not None or not self._raw

    def look(self, now: float) -> int:
        """Parse the next slice. Returns how many frames came to their end in it."""
        piece, self.pongs = self._raw[:SLICE_BYTES], []
        try:
            self._budget.take(self._scope, len(piece))
        except Overloaded as error:
            self.finish(CloseCode.TRY_AGAIN_LATER, error.detail)
            return 0
        del self._raw[:SLICE_BYTES]
        self._frames.receive_data(piece)
        frames = cast("list[Frame]", self._frames.events_received())
        whole, pings = self._take(frames)
        self.pongs = self._frames.data_to_send()[:pings]  # behind them may be the library's goodbye: `end` has it too
        if (goodbye := self._frames.close_sent) is not None:  # the peer has closed, or has broken the rules
            self.finish(goodbye.code, goodbye.reason)
        before, self.partial = self.partial, len(self._frames.reader.buffer) + len(self._parts)
        if whole or not before:
            self.since = now
        self._budget.give(self._scope, len(piece) + before - self.partial - whole)
        return len(frames)

    def _take(self, frames: list[Frame]) -> tuple[int, int]:
        """Make messages of frames. Returns the bytes of those that are whole, and the number of pings. What follows a
        fault does not count, even in the same slice."""
        whole = pings = 0
        for frame in frames:
            if self.end is not None:
                break
            if frame.opcode is _TEXT or frame.opcode is _CONT:
                whole += self._take_text(frame)
            elif frame.opcode is _PING:
                pings += 1
            elif frame.opcode is _BINARY:
                self.finish(CloseCode.UNSUPPORTED_DATA, "messages are text")
        return whole, pings

    def _take_text(self, frame: Frame) -> int:
        """The bytes of the message that this frame completes."""
        if not frame.fin:
            self._parts += frame.data
            return 0
        message = bytes(frame.data)
        if self._parts:
            message = bytes(self._parts + message)
            self._parts.clear()
        if not _is_utf8(message):
            self.finish(CloseCode.INVALID_DATA, "a message is not UTF-8")
            return 0
        self.messages.append(message)
        return len(message)

    def finish(self, code: int, reason: str = "") -> None:
        """Parse nothing more; the first reason counts."""
        self.end = self.end or (code, reason)

    # After our goodbye

    def discard(self) -> bool:
        """Pass over the next slice of what has arrived. True when there is nothing more to wait for: the peer has said
        goodbye, or is in the middle of a message that the budget has no room for."""
        self._parts.clear()
        self._frames.receive_data(self._raw[:SLICE_BYTES])
        self._frames.events_received()
        self._frames.data_to_send()
        del self._raw[:SLICE_BYTES]
        before, self._passing = self._passing, len(self._frames.reader.buffer)
        try:
            self._budget.take(self._passed, self._passing - before)
        except Overloaded:
            return True
        return self._frames.close_rcvd is not None

    def release(self) -> None:
        """The connection is lost."""
        self._budget.release(self._passed)


def _is_utf8(text: bytes) -> bool:
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True
