"""The messages of a publisher's line, in a row: handed on in order, answered in order.

Each goes to the session's lane as it is read, so that all that came together leave in one commit. A message has no task
but a place in the row: whoever answers waits for the first of them, and then sends all that have their answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.types import Message, Scope

from api.http import problems
from api.http.body_budget import BodyBudget
from api.metrics.registry import Metrics
from api.publish_line import messages
from api.publish_line.publisher import LINE, Publisher
from api.websocket.connection import WebSocket
from api.websocket.frames import FrameReader
from eventstore.commit.batch import Answer, Retry
from eventstore.domain.commands import Publish
from eventstore.domain.errors import InternalError, LaybyError, Overloaded

log = logging.getLogger("layby.http")

UNANSWERED: Final = 64
"""Messages that may wait for their answer; beyond that nothing is read."""
CROWDED_S: Final = 0.05
"""After so long a message that found no room among the commands that wait looks for it again."""
PUBLISHED: Final = 201
METHOD: Final = "MESSAGE"
"""What metrics call a message, where a request has its method."""
_FAULT: Final = InternalError()


@dataclass(slots=True)
class PendingMessage:
    """One message: its id, if it could be told, how large it was, when it came, and its answer or what it waits for."""

    id: str | None
    size: int
    since: float
    answer: asyncio.Future[Answer] | LaybyError

    @property
    def outcome(self) -> Answer | LaybyError | None:
        """None as long as there is no answer."""
        answer = self.answer
        if isinstance(answer, LaybyError):
            return answer
        if not answer.done():
            return None
        error = answer.exception()
        if error is None:
            return answer.result()
        return error if isinstance(error, LaybyError) else _FAULT


_Done = tuple[PendingMessage, Answer | LaybyError]


class InFlightMessages:
    """The messages of one line that are not answered."""

    def __init__(self, publisher: Publisher, metrics: Metrics, budget: BodyBudget, scope: Scope) -> None:
        """`scope`: in whose name the budget holds messages until they are answered."""
        self.socket: WebSocket = WebSocket(FrameReader(messages.MESSAGE_BYTES, budget, scope), self)
        self._publisher: Publisher = publisher
        self._metrics: Metrics = metrics
        self._budget: BodyBudget = budget
        self._scope: Scope = scope
        self._row: deque[PendingMessage] = deque()
        self._held_up: bool = False
        self._stopped: bool = False
        self._moved: asyncio.Event = asyncio.Event()
        self._lost: asyncio.Event = asyncio.Event()

    # What the socket asks and tells

    @property
    def ready(self) -> bool:
        """There is room for another message."""
        return len(self._row) < UNANSWERED and not self._held_up

    def take(self, data: bytes) -> None:
        """The next message."""
        place = PendingMessage(None, len(data), asyncio.get_running_loop().time(), _FAULT)
        try:
            message = messages.read(data)
            place.id = messages.id_of(message)
            command = messages.command_of(message, data)
            retry = self._publisher.retry(place.id, data)
        except LaybyError as error:
            place.answer = error
            self._put(place)
        except Exception:
            log.exception("a message on %s failed", self._publisher.path)
            self._put(place)
        else:
            self._admit(place, command, retry)

    def stir(self, _: Any = None) -> None:
        """Something has changed that somebody may wait for."""
        self._moved.set()
        if self.socket.lost:
            self._lost.set()

    # In

    def _admit(self, place: PendingMessage, command: Publish, retry: Retry | None) -> None:
        """Hand a message on. If it has to wait, those behind it are not read: nothing overtakes it."""
        try:
            if retry and (first := self._publisher.under_way(retry)):  # perhaps of a line that is lost by now
                return self._hold_up(first.add_done_callback, place, command, retry)
            place.answer = self._publisher.submit(command, retry)
        except Overloaded:
            later = partial(asyncio.get_running_loop().call_later, CROWDED_S)
            return self._hold_up(later, place, command, retry)
        except LaybyError as error:
            place.answer = error
        return self._put(place)

    def _hold_up(self, when: Callable[[Callable[..., Any]], Any], *message: Any) -> None:
        """Try this message again, when there may be a way on."""
        self._held_up = True

        def again(_: Any = None) -> None:
            if not self._stopped:
                self._held_up = False
                self._admit(*message)
                self.socket.advance()

        when(again)

    def _put(self, place: PendingMessage) -> None:
        self._row.append(place)
        if len(self._row) == 1:
            self._watch()

    def _watch(self) -> None:
        """Hear when the oldest message has its answer."""
        if isinstance(first := self._row[0].answer, asyncio.Future):
            first.add_done_callback(self.stir)
        else:
            self.stir()

    def stop(self, code: int, reason: str) -> None:
        """Take no more messages, nor the one that is held up."""
        self._stopped, self._held_up = True, False
        self.socket.end(code, reason)

    # Out

    async def gone(self) -> Message:
        """Wait until the client is lost; told as the end of any request is."""
        await self._lost.wait()
        return {"type": "http.disconnect"}

    async def answer(self) -> None:
        """Answer, until no more messages come and none is left."""
        while await self._first():
            done = list(self._done())
            reached = await self._reached(done)
            self.socket.send([self._told(place.id, outcome, reached) for place, outcome in done])
            for _ in done:
                self._row.popleft()
            self._count(done)
            if self._row:
                self._watch()
            self.socket.advance()
            await self.socket.drain()

    async def _first(self) -> bool:
        """Wait for the answer to the oldest message. False if there is none, and none will come."""
        while not (self._row and self._row[0].outcome):
            if self.socket.over and not self._row and not self._held_up:
                return False
            self._moved.clear()
            await self._moved.wait()
        return True

    def _done(self) -> Iterator[_Done]:
        """The oldest messages that have their outcome, up to the first that has none."""
        for place in self._row:
            if (outcome := place.outcome) is None:
                return
            yield place, outcome

    async def _reached(self, done: list[_Done]) -> str | LaybyError:
        """The durability of answers that do not say it: all of them were committed before this is asked."""
        if all(isinstance(outcome, LaybyError) or outcome.durability for _, outcome in done):
            return ""
        try:
            return await self._publisher.confirm()
        except LaybyError as error:
            return error

    def _told(self, name: str | None, outcome: Answer | LaybyError, reached: str | LaybyError) -> bytes:
        if isinstance(outcome, Answer) and name is not None:
            durability = outcome.durability or reached
            if isinstance(durability, str):
                return messages.answer(name, outcome.result, durability)
            outcome = durability
        return messages.refusal(name, outcome if isinstance(outcome, LaybyError) else _FAULT, self._publisher.path)

    def _count(self, done: list[_Done]) -> None:
        now, seconds = asyncio.get_running_loop().time(), defaultdict[int, list[float]](list)
        for place, outcome in done:
            status = problems.status_of(outcome) if isinstance(outcome, LaybyError) else PUBLISHED
            seconds[status].append(now - place.since)
        for status, each in seconds.items():
            self._metrics.requests.answered(METHOD, LINE, status, each)
        self._budget.give(self._scope, sum(place.size for place, _ in done))
