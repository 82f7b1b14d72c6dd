"""A WebSocket after its handshake (RFC 6455): messages in, as fast as they are taken, and messages out.

What is not taken is not read, so that TCP holds its sender back; and a peer that does not read is not read.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from typing import Any, Final, Protocol

from websockets.frames import Close, CloseCode

from api.transport.http_protocol import PATIENCE_S, SLOWEST
from api.transport.slow_clients import SlowClientWatch
from api.websocket.frames import FrameReader

LOOK_EVERY_S: Final = 5.0
SILENT_S: Final = 20.0
"""A peer that was silent for so long is asked whether it is there."""
DEAD_S: Final = 45.0
"""One that has said nothing for so long is gone."""
GOODBYE_S: Final = 3.0
"""How long a peer has to take what is under way and to hang up, once it was told of the end."""
LOOKS: Final = 256
"""Frames that are taken in a turn, or slices in which none ends: frames of which no message comes, however many and
however small, hold up nobody else."""
_TEXT: Final = 0x81
_CLOSE: Final = 0x88
_PING: Final = 0x89
"""First bytes of frames that are whole messages."""


class Owner(Protocol):
    """Whoever uses a connection."""

    @property
    def ready(self) -> bool:
        """Whether there is room for a message. When there is again, it calls `advance`."""
        ...

    def take(self, data: bytes) -> None:
        """The next message."""
        ...

    def stir(self) -> None:
        """It ends: `over` or `lost` has changed."""
        ...


class WebSocket(asyncio.Protocol):
    """One connection."""

    def __init__(self, inbox: FrameReader, owner: Owner) -> None:
        self.transport: asyncio.Transport
        self.lost: bool = False
        self._inbox: FrameReader = inbox
        self._owner: Owner = owner
        self._closed: bool = False
        self._reading: bool = True
        self._again: bool = False
        self._writable: asyncio.Event = asyncio.Event()
        self._heard: float = 0.0

    @property
    def over(self) -> bool:
        """No more messages come."""
        return self.lost or (self._inbox.end is not None and not self._inbox.messages)

    def begin(self, transport: asyncio.Transport, connections: set[Any]) -> None:
        """See `Successor`."""
        self.transport = transport
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._unread: SlowClientWatch = SlowClientWatch(self._loop, transport, transport.abort, allowance=0)
        self._connections: set[Any] = connections
        self._connections.add(self)
        self._writable.set()
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle = self._loop.call_later(LOOK_EVERY_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._inbox.release()
        self._timer.cancel()
        self._unread.end()
        self._connections.discard(self)
        self._writable.set()
        self._owner.stir()

    def shutdown(self) -> None:
        """What uvicorn tells each connection when it stops. Whoever uses it has been told before."""

    # Messages in

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._inbox.add(data)
        self.advance()

    def advance(self) -> None:
        """Let messages be taken while there is room, and read on.

        All that has come is taken at once, so that it leaves in one commit. In pieces, with others in between, commits
        held half as many, and a message cost a third more.
        """
        if not self._closed:
            self._take()
        elif not self.lost:
            self._pass_over()
        self._read(self._open and self._inbox.end is None)
        if self.over:
            self._owner.stir()

    def _take(self) -> None:
        inbox, looks = self._inbox, 0
        while self._open:
            if inbox.messages:
                self._owner.take(inbox.messages.popleft())
            elif inbox.idle:
                break
            elif looks >= LOOKS:
                self._go_on_later()
                break
            else:
                looks += inbox.look(self._heard) or 1
                if inbox.pongs:
                    self.transport.write(b"".join(inbox.pongs))

    def _pass_over(self) -> None:
        """What comes after our goodbye counts no more."""
        if self._inbox.discard():
            self.transport.close()
        elif not self._inbox.empty:
            self._go_on_later()

    def _go_on_later(self) -> None:
        """Let others have their turn. Nothing more is read meanwhile."""
        if not self._again:
            self._again = True
            self._loop.call_later(0, self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self.advance()

    @property
    def _open(self) -> bool:
        """A message can be taken: there is room for it, and for its answer."""
        return self._writable.is_set() and not (self._closed or self.lost) and self._owner.ready

    def _read(self, on: bool) -> None:
        on = (on or self._closed) and not self._again  # what comes after the goodbye is passed over
        if on != self._reading and not self.transport.is_closing():
            self._reading = on
            (self.transport.resume_reading if on else self.transport.pause_reading)()

    # Messages out

    def send(self, messages: Iterable[bytes]) -> None:
        """All of them at once. Wait for `drain` before the next ones."""
        if not self._closed and not self.transport.is_closing():
            self.transport.write(b"".join([_frame(message) for message in messages]))

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was sent, or is lost."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._unread.begin()
        self._read(False)

    def resume_writing(self) -> None:
        self._unread.end()
        self._writable.set()
        self.advance()

    # The end

    def end(self, code: int, reason: str) -> None:
        """Take nothing more, not even what has arrived; `close` will say why."""
        self._inbox.finish(code, reason)
        self._inbox.messages.clear()
        self.advance()

    def close(self) -> None:
        """Say goodbye, behind what was sent, and let the peer hang up: what it still sends is passed over."""
        if self._closed or self.lost:
            return
        self._closed = True
        self.transport.write(_goodbye(*(self._inbox.end or (CloseCode.INTERNAL_ERROR, ""))))
        self._timer.cancel()
        self._timer = self._loop.call_later(GOODBYE_S, self.transport.abort)
        self.advance()

    def _look(self) -> None:
        """Whether the peer is there, and keeps up. While we do not read, it is not to blame."""
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)
        now, inbox = self._loop.time(), self._inbox
        if not (self._reading or self._again):
            self._heard = inbox.since = now
        elif inbox.partial and now - inbox.since > PATIENCE_S + inbox.partial / SLOWEST:
            inbox.finish(CloseCode.POLICY_VIOLATION, f"a message did not arrive in {PATIENCE_S:.0f} s")
            self.advance()
        elif now - self._heard > DEAD_S:
            self.transport.abort()
        elif now - self._heard > SILENT_S:
            self.transport.write(_frame(b"", _PING))


def _goodbye(code: int, reason: str) -> bytes:
    return _frame(b"" if code == CloseCode.NO_STATUS_RCVD else Close(code, reason).serialize(), _CLOSE)


def _frame(message: bytes, kind: int = _TEXT) -> bytes:
    """A whole message of a server."""
    size = len(message)
    if size < 126:
        return bytes((kind, size)) + message
    if size < 1 << 16:
        return struct.pack("!BBH", kind, 126, size) + message
    return struct.pack("!BBQ", kind, 127, size) + message
