"""A clock that is moved by hand, and a connection that only remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Task:
    def add_done_callback(self, _: Any) -> None: ...


class Loop:
    """A clock that is moved by hand, and the timers on it."""

    def __init__(self) -> None:
        self.now, self.timers, self.started = 0.0, list[Timer](), 0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, call))
        return self.timers[-1]

    def create_task(self, work: Any, **_: Any) -> Task:
        work.close()
        self.started += 1
        return Task()

    def pass_(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if not timer.cancelled and timer.at <= end]:
            timer = min(due, key=lambda timer: timer.at)
            self.timers.remove(timer)
            self.now = timer.at
            timer.call()
        self.now = end


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed, self.aborted, self.unread, self.reading = b"", False, False, 0, True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
