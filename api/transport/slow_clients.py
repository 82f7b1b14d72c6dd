"""Clients that do not take what was written to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

UNREAD_BYTES: Final = 256 * 1024
UNREAD_S: Final = 30.0
UNREAD_RATE: Final = 4 * 1024
"""Of what a client has not taken yet, and that is larger than its allowance, so many bytes a second must go."""


class SlowClientWatch:
    """Watches a connection from the moment that its client lags until it has caught up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        hang_up: Callable[[], None],
        allowance: int = UNREAD_BYTES,
    ) -> None:
        """`hang_up` ends the connection; `allowance` bytes may stay unread for ever."""
        self._loop: asyncio.AbstractEventLoop = loop
        self._transport: asyncio.Transport = transport
        self._hang_up: Callable[[], None] = hang_up
        self._allowance: int = allowance
        self._before: int = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The client lags."""
        self.end()
        self._look_later()

    def end(self) -> None:
        """It has caught up, or has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._before = self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(UNREAD_S, self._look)

    def _look(self) -> None:
        size = self._transport.get_write_buffer_size()
        if size > self._allowance and self._before - size < UNREAD_S * UNREAD_RATE:
            self._hang_up()
        else:
            self._look_later()
