"""What this process knows of a session that somebody follows, and where its readers stand."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eventstore.commit.records import Line
from eventstore.domain.events import chain

log = logging.getLogger("layby.store")

RECENT_LINES = 256
RECENT_BYTES = 256 * 1024
AT_ONCE = 64
"""Readers that are served before other work gets its turn."""
HELD_BACK_S = 0.05
"""How long an announcement waits for the answer to a commit: that may have been lost, or wait for a slow disk."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines, the first of them numbered `first`. `end` says why nothing follows, if that is so:
    `terminal` or `deleted`. `hash` is the chain hash up to here, "" where there is nothing before. Those who are handed
    the same chunk share in `encoded` what they make of it."""

    first: int
    lines: list[bytes]
    end: str | None = None
    hash: str = field(default="", compare=False)
    encoded: dict[Any, list[bytes]] | None = field(default=None, compare=False, repr=False)

    @property
    def next_from(self) -> int:
        return self.first + len(self.lines)


Deliver = Callable[[Chunk], bool]
"""Takes a chunk at once, or refuses it where that would mean to wait; then its reader is woken, and asks for it."""


@dataclass(slots=True, eq=False)
class ReadPosition:
    """Where a reader stands: the number that it wants next, and the chain hash before it ("" = whatever there is)."""

    seq: int
    hash: str = ""
    deliver: Deliver | None = None

    def move(self, chunk: Chunk) -> None:
        """It has this chunk."""
        self.seq, self.hash = chunk.next_from, chunk.hash


class FollowedSession:
    """What this process knows of a session that somebody follows. `recent` holds the newest lines, each chained to the
    one before; `version` counts the times when all that is known here came into doubt."""

    def __init__(self) -> None:
        self.readers: int = 0
        self.last_seq: int = 0
        self.ended: bool = False
        self.version: int = 0
        self._committing: bool = False
        self._announced: int = 0
        self._patience: asyncio.TimerHandle | None = None
        self.recent: deque[Line] = deque()
        self._shared: dict[tuple[int, str], Chunk] = {}  # the newest lines from a place on, for all who stand there
        self._before: str = ""  # the hash before the first of them, once it is known
        self._recent_bytes: int = 0
        self._waiting: dict[ReadPosition, asyncio.Future[None]] = {}
        self._due: deque[ReadPosition] = deque()  # of those that wait, who has to hear

    def heard(self, seq: int) -> None:
        """There are events up to this one."""
        if seq > self.last_seq:
            self.last_seq = seq
            self._wake()

    def announced(self, seq: int) -> None:
        """The same, as the engine tells it. Where this process is committing, the answer to that brings the lines
        along, and often comes a moment later: whoever was woken now would read what is about to be handed over."""
        if not self._committing:
            self.heard(seq)
        elif seq > self.last_seq:
            self._announced = max(self._announced, seq)
            if self._patience is None:
                self._patience = asyncio.get_running_loop().call_later(HELD_BACK_S, self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        self._patience = None
        self._tell_announced()

    def _tell_announced(self) -> None:
        announced, self._announced = self._announced, 0  # told once: the store may go back behind it
        self.heard(announced)

    def committing(self, *, under_way: bool) -> None:
        """Whether this process has a commit under way."""
        self._committing = under_way
        if not under_way:
            self._tell_announced()

    def doubt(self) -> None:
        """Let every reader look into the store, whatever is known here."""
        self.version += 1
        self._forget()
        self._wake()

    def _forget(self) -> None:
        self.recent.clear()
        self._shared.clear()
        self._before, self._recent_bytes = "", 0

    def learned(self, last_seq: int, known: int, *, ended: bool) -> None:
        """What a read of the store found; `known` is what was known when it began. The store may have less than was
        announced (writes can be lost in a failover): then wait for what it has."""
        if last_seq >= self.last_seq or self.last_seq == known:
            if last_seq < self.last_seq:
                self.doubt()
            self.last_seq, self.ended = last_seq, ended

    def _wake(self) -> None:
        """Tell all who wait now. Those who can are handed the news at once, and go on waiting."""
        idle = not self._due
        self._due = deque(self._waiting)
        if idle:
            self._tell()

    def _tell(self) -> None:
        """Some at a time: a session may have very many readers."""
        for _ in range(min(AT_ONCE, len(self._due))):
            place = self._due.popleft()
            future = self._waiting.get(place)
            if future and not future.done() and not self._delivered(place):
                del self._waiting[place]
                future.set_result(None)
        if self._due:
            asyncio.get_running_loop().call_soon(self._tell)

    def _delivered(self, place: ReadPosition) -> bool:
        if place.deliver is None or self.ended or not (chunk := self.handed_over(place)):
            return False
        try:
            taken = place.deliver(chunk)
        except Exception:  # neither whoever commits nor the other readers may suffer from one
            log.exception("a reader could not be handed what was committed")
            return False
        if taken:
            place.move(chunk)
        return taken

    def remember(self, lines: list[Line]) -> None:
        """Keep the lines of a commit for those who are about to read them."""
        if not lines:
            return
        if self.recent and lines[0].seq <= self.recent[-1].seq:
            self.doubt()  # the store went back, and gives numbers out again
        elif not self.recent or not _follows(lines[0], self.recent[-1]):
            self._forget()  # of what went before too: one line may be more than is kept, and leave its hash alone
        self._shared.clear()
        for line in lines:
            self.recent.append(line)
            self._recent_bytes += len(line.text)
        while len(self.recent) > RECENT_LINES or self._recent_bytes > RECENT_BYTES:
            first = self.recent.popleft()
            self._before = first.hash
            self._recent_bytes -= len(first.text)

    def has(self, seq: int, hash_: str) -> bool:
        """Whether the lines from this number on are all here and follow on this hash ("" = whatever they follow)."""
        if not self.recent or not self.recent[0].seq <= seq <= self.recent[-1].seq:
            return False
        return not hash_ or self._hash_before(seq, hash_) == hash_

    def lines_from(self, seq: int, hash_: str) -> list[Line]:
        """The lines from this number on, or none; see `has`."""
        return list(self.recent)[seq - self.recent[0].seq :] if self.has(seq, hash_) else []

    def handed_over(self, place: ReadPosition) -> Chunk | None:
        """The newest lines, where they are at hand: the same chunk for all who stand at the same place."""
        at = place.seq, place.hash
        if (chunk := self._shared.get(at)) is None and (lines := self.lines_from(*at)):
            chunk = self._shared[at] = Chunk(place.seq, [line.text for line in lines], hash=lines[-1].hash, encoded={})
        return chunk

    def _hash_before(self, seq: int, guess: str) -> str:
        """That of the event before this line, as far as it can be told."""
        at = seq - self.recent[0].seq
        if at:
            return self.recent[at - 1].hash
        if not self._before and chain(guess, self.recent[0].text) == self.recent[0].hash:
            self._before = guess
        return self._before

    async def changed(self, place: ReadPosition, timeout_s: float) -> None:
        """Wait until there are news that this reader has to ask for, or for so long."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place] = future
        try:
            # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the news.
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting.pop(place, None)


def _follows(line: Line, before: Line) -> bool:
    return before.seq + 1 == line.seq and chain(before.hash, line.text) == line.hash
