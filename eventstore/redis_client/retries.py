"""The part of the client that sends: each request to the engine that serves it, and again within a budget, until it is
answered or settled with an error."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any, TypeVar

from redis import exceptions as redis_errors

from eventstore.domain.errors import Overloaded, StoreFull, StoreUnavailable
from eventstore.redis_client.node import AWAY, Busy, Node, Request
from eventstore.redis_client.scripts import Argument, Script, ScriptCall
from eventstore.redis_client.topology import Topology
from eventstore.redis_client.url import Host
from eventstore.support.tasks import heed_cancellation
from eventstore.support.timing import TIMING, Timing

log = logging.getLogger("layby.store")
_R = TypeVar("_R", bound=Request)

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5


class Sender:
    """Sends requests where a topology says that they belong."""

    def __init__(self, topology: Topology, timing: Timing = TIMING) -> None:
        self._topology: Topology = topology
        self._timing: Timing = timing

    async def find(self) -> None:
        """Find out which engines serve the store, unless that is known. Raises `StoreUnavailable`, `UnfitEngine`."""
        loop = asyncio.get_running_loop()
        give_up, waits = loop.time() + self._timing.retry_s, pauses()
        while not self._topology.known:
            try:
                await self._topology.look()
            except AWAY as error:
                pause = next(waits)
                if loop.time() + pause > give_up:
                    log.error("nobody tells where the store is (%s: %s)", type(error).__name__, error)
                    raise unavailable() from error
                await asyncio.sleep(pause)
            heed_cancellation()

    def node(self, request: Request) -> Node:
        """The node that this request has to be sent to, as far as is known."""
        return request.asked or self._topology.node(request.key)

    async def send(self, node: Node, requests: list[_R], last: Sequence[Argument] = ()) -> list[_R]:
        """Ask this engine until each request is answered, or settled with what is in its way. Those that have to be
        sent elsewhere, or again after a `pause`, come back. Never raises."""
        loop = asyncio.get_running_loop()
        # While the engine is known to be down, one try is enough to find out whether it is back.
        give_up = loop.time() + (0.0 if node.down else self._timing.retry_s)
        elsewhere: list[_R] = []
        load: set[Script] = set()
        waits = pauses()
        while True:
            trouble, left = await self._attempt(node, requests, last, load, elsewhere)
            if trouble is None:
                node.answered()
                return elsewhere
            pause = next(waits)
            if isinstance(trouble, redis_errors.NoScriptError) and not load:
                load = {request.call.script for request in left if isinstance(request.call, ScriptCall)}
                requests = left
                continue
            self._topology.doubt()
            requests = self._still(node, left, elsewhere)
            if requests and loop.time() + pause > give_up:
                node.gone(trouble)
                _settle(requests, unavailable(trouble))
                return elsewhere
            await asyncio.sleep(pause if requests else 0)
            requests = self._still(node, requests, elsewhere)
            if not requests:
                return elsewhere

    def _still(self, node: Node, left: list[_R], elsewhere: list[_R]) -> list[_R]:
        """Those that this engine is still to be asked for; the others go elsewhere."""
        here = list[_R]()
        for request in left:
            (here if self.node(request) is node else elsewhere).append(request)
        return here

    async def _attempt(
        self,
        node: Node,
        requests: list[_R],
        last: Sequence[Argument],
        load: Collection[Script],
        elsewhere: list[_R],
    ) -> tuple[Exception | None, list[_R]]:
        """Ask once. Gives what keeps the engine from answering, and those that have no answer for it."""
        try:
            replies = await node.ask(requests, last, load)
        except AWAY as error:
            return error, requests
        except Busy:
            _settle(requests, Overloaded("every connection to the store is busy; try again in a moment"))
        except Exception as error:  # handed on to everyone who waits: none of them may hang
            _settle(requests, _explained(error) if isinstance(error, redis_errors.ResponseError) else error)
        else:
            return self._sorted(node, requests, replies, elsewhere)
        return None, []

    def _sorted(
        self, node: Node, requests: list[_R], replies: list[Any], elsewhere: list[_R]
    ) -> tuple[Exception | None, list[_R]]:
        """Settle those that are answered; see `_attempt`."""
        trouble: Exception | None = None
        left: list[_R] = []
        confirmed = replies[len(requests)] if len(replies) > len(requests) else None
        for request, reply in zip(requests, replies, strict=False):
            if not isinstance(reply, Exception):
                request.settle(reply, confirmed)
            elif _is_between(reply):
                elsewhere += self._put_off(node, request, reply)
            elif isinstance(reply, AWAY):
                trouble = reply
                left.append(request)
            else:
                request.settle(_explained(reply) if isinstance(reply, redis_errors.ResponseError) else reply, confirmed)
        return trouble, left

    def _put_off(self, node: Node, request: _R, reply: Exception) -> list[_R]:
        """Send it where its slot is now, or again in a moment, while its slot is being moved; unless that has been
        going on for too long."""
        now = asyncio.get_running_loop().time()
        request.give_up = request.give_up or now + self._timing.retry_s
        if isinstance(reply, redis_errors.AskError):
            self._send_on(node, request, reply)
        else:  # where it was asked for, a part of its keys may have gone already
            request.pause = random.uniform(0.5, 1.5) * min(max(request.pause * 2, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
            self._topology.doubt()
        if now + request.pause <= request.give_up:
            return [request]
        _settle([request], unavailable(reply))
        return []

    def _send_on(self, node: Node, request: Request, reply: redis_errors.AskError) -> None:
        host, port = _named(reply)
        there = self._topology.named((host or _host_of(node), port))
        request.pause = SHORTEST_PAUSE_S if there is node else 0.0
        if isinstance(reply, redis_errors.MovedError):
            request.asked = None
            self._topology.moved(reply.slot_id, there)
        else:
            request.asked = there


def _is_between(reply: Exception) -> bool:
    """Whether a request has to go elsewhere, or to wait until its slot has settled down. MOVED is an `AskError` too."""
    if isinstance(reply, redis_errors.ClusterDownError):
        return "not served" in str(reply)  # this slot; others are
    return isinstance(reply, redis_errors.AskError | redis_errors.TryAgainError)


def _named(reply: redis_errors.AskError) -> Host:
    named: Any = reply  # its attributes are untyped
    return str(named.host), int(named.port)


def _host_of(node: Node) -> str:
    return str(node.client.connection_pool.connection_kwargs.get("host", ""))


def pauses(shortest_s: float = SHORTEST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> Generator[float]:
    """Seconds to wait before one attempt and the next: twice as long each time up to `longest_s`, with jitter."""
    pause = shortest_s
    while True:
        yield pause * random.uniform(0.5, 1.5)
        pause = min(pause * 2, longest_s)


def _settle(requests: Iterable[Request], error: Exception) -> None:
    for request in requests:
        request.settle(error, None)


def unavailable(cause: Exception | None = None) -> StoreUnavailable:
    """`cause` is for operators, see `preflight.tell_silence`; no caller hears it."""
    error = StoreUnavailable("the store does not answer; nothing was lost, send the request again")
    error.__cause__ = cause
    return error


def _full(error: Exception) -> StoreFull:
    log.error("Redis is out of memory (%s); free some, or raise maxmemory", error)
    return StoreFull("the store is out of memory; nothing was written")


def _explained(error: redis_errors.ResponseError) -> Exception:
    """Refusals that redis-py has no class for."""
    text = str(error)
    if "OOM" in text or "used memory" in text:
        return _full(error)
    if text.startswith(("MISCONF", "NOREPLICAS", "UNKILLABLE", "BUSY")):
        log.error("Redis refuses to write: %s", text)
        return StoreUnavailable("the store takes no writes at the moment; nothing was written")
    return error
