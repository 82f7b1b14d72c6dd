"""The one road to Redis: every request to the engine that serves its key, again within a budget, and words for what
can go wrong.

What goes to several engines goes to all of them at once; one that does not answer holds up only what is meant for it.
Every script and command of ours is safe to repeat, but what was answered is not sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Sequence
from typing import Any, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from eventstore.address import Address, Host, parse
from eventstore.domain.errors import Overloaded, StoreFull, StoreUnavailable
from eventstore.node import AWAY, MAX_CONNECTIONS, Node, Request, connect, is_exhausted
from eventstore.scripts import Argument, Script, ScriptCall
from eventstore.tasks import heed_cancellation
from eventstore.topology import Cluster, Fixed, Topology, Watched

__all__ = ["MAX_CONNECTIONS", "RETRY_BUDGET_S", "Connection", "Request"]

log = logging.getLogger("layby.store")
_T = TypeVar("_T")
_R = TypeVar("_R", bound=Request)

RETRY_BUDGET_S = 2.0
"""How long a request goes on trying before it hears 503. An attempt that the engine leaves hanging may outlast it."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5


class Connection:
    """Pools of connections to the engines of one store, shared by everything in this process."""

    def __init__(
        self, url: str, *, client: Redis | None = None, plain_scripts: bool = False, topology: Topology | None = None
    ) -> None:
        """Raises `WrongAddress`. For `plain_scripts` see `Node`."""
        self._topology: Topology = topology or _topology(parse(url), client, plain_scripts=plain_scripts)

    @property
    def client(self) -> Any:
        """The client of the engine; of several, of one of them."""
        return self._topology.node(None).client

    @property
    def nodes(self) -> list[Node]:
        """Every engine that takes writes, once they are known."""
        return self._topology.nodes

    @property
    def topology(self) -> Topology:
        return self._topology

    @property
    def clustered(self) -> bool:
        """Whether several engines share the store, each with a clock of its own."""
        return isinstance(self._topology, Cluster)

    @property
    def changes(self) -> bool:
        """Whether another engine may take over."""
        return not isinstance(self._topology, Fixed)

    def at(self, node: Node) -> Connection:
        """The same, to one engine alone; it need not be closed."""
        return Connection("", topology=Fixed(node, shared=True))

    async def close(self) -> None:
        await self._topology.close()

    async def find(self) -> None:
        """Find out where the store is, unless that is known. Raises `StoreUnavailable`, `UnfitEngine`."""
        loop = asyncio.get_running_loop()
        give_up, pauses = loop.time() + RETRY_BUDGET_S, _pauses()
        while not self._topology.known:
            try:
                await self._topology.look()
            except AWAY as error:
                pause = next(pauses)
                if loop.time() + pause > give_up:
                    log.error("nobody tells where the store is (%s: %s)", type(error).__name__, error)
                    raise _unavailable() from None
                await asyncio.sleep(pause)
            heed_cancellation()

    def node(self, request: Request) -> Node:
        """Who has to be sent this request, as far as is known."""
        return request.asked or self._topology.node(request.key)

    def shares(self, things: Iterable[_T], key: Callable[[_T], str]) -> dict[Node, list[_T]]:
        """These things, by the engine that serves the key of each."""
        shared = dict[Node, list[_T]]()
        for thing in things:
            shared.setdefault(self._topology.node(key(thing)), []).append(thing)
        return shared

    async def command(self, *arguments: Argument) -> Any:
        """One command that is safe to repeat. Its second word is its key, if it has one."""
        (reply,) = await self.commands([arguments])
        return reply

    async def commands(self, batch: Sequence[Sequence[Argument]]) -> list[Any]:
        """Several commands that are safe to repeat, in one round trip. Raises the first refusal."""
        return _raised(await self._answers([Request(arguments) for arguments in batch]))

    async def run(self, call: ScriptCall) -> Any:
        """Run one script. Every script of ours is safe to repeat."""
        (reply,) = await self.run_each([call])
        return reply

    async def run_each(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Run scripts in one round trip. Raises the first refusal among the replies."""
        return _raised(await self.outcomes(calls))

    async def outcomes(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The same, but what one of them was refused with stands in its place, `StoreUnavailable` too."""
        return await self._answers([Request(call) for call in calls])

    async def run_all(self, calls: Sequence[ScriptCall], last: Sequence[Argument] = ()) -> list[Any]:
        """Run scripts of one partition; `last` is a command to end the round trip with, whose reply comes last.

        What one of them alone was refused with stands in its place among the replies.
        """
        requests = [Request(call) for call in calls]
        replies = await self._answers(requests, last)
        if lost := next((reply for reply in replies if isinstance(reply, StoreUnavailable | Overloaded)), None):
            raise lost
        return [*replies, requests[-1].confirmed] if last else replies

    async def scan(self, match: str, count: int) -> AsyncGenerator[bytes]:
        """The keys of all engines that match."""
        await self.find()
        for node in list(self._topology.nodes):
            at, cursor = self.at(node), b"0"
            while True:
                cursor, keys = await at.command("SCAN", cursor, "MATCH", match, "COUNT", count)
                for key in keys:
                    yield key
                if int(cursor) == 0:
                    break

    async def _answers(self, requests: list[Request], last: Sequence[Argument] = ()) -> list[Any]:
        """The reply of each, or what it was refused with."""
        if not self._topology.known:
            await self.find()
        left = requests
        while left:
            groups = self._grouped(left)
            if len(groups) == 1:
                left = await self.send(*groups[0], last)
            else:
                sent = await asyncio.gather(*(self.send(node, group, last) for node, group in groups))
                left = [request for again in sent for request in again]
            if pause := max((request.pause for request in left), default=0):
                await asyncio.sleep(pause)
        heed_cancellation()
        return [request.reply for request in requests]

    def _grouped(self, requests: list[Request]) -> list[tuple[Node, list[Request]]]:
        if isinstance(self._topology, Fixed):
            return [(self._topology.nodes[0], requests)]
        groups = dict[Node, list[Request]]()
        for request in requests:
            groups.setdefault(self.node(request), []).append(request)
        return list(groups.items())

    async def send(self, node: Node, requests: list[_R], last: Sequence[Argument] = ()) -> list[_R]:
        """Ask this engine until each request is answered, or settled with what is in its way. Those that have to be
        sent elsewhere, or again after a `pause`, come back. Never raises."""
        loop = asyncio.get_running_loop()
        # While the engine is known to be down, one try is enough to find out whether it is back.
        give_up = loop.time() + (0.0 if node.down else RETRY_BUDGET_S)
        load, elsewhere, pauses = set[Script](), list[_R](), _pauses()
        while True:
            trouble, left = await self._attempt(node, requests, last, load, elsewhere)
            if trouble is None:
                node.answered()
                return elsewhere
            pause = next(pauses)
            if isinstance(trouble, redis_errors.NoScriptError) and not load:
                load = {request.call.script for request in left if isinstance(request.call, ScriptCall)}
                requests = left
                continue
            self._topology.doubt()
            requests = self._still(node, left, elsewhere)
            if requests and loop.time() + pause > give_up:
                node.gone(trouble)
                _settle(requests, _unavailable())
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
            if not is_exhausted(error):
                return error, requests
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
        trouble, left = None, list[_R]()
        confirmed = replies[len(requests)] if len(replies) > len(requests) else None
        for request, reply in zip(requests, replies, strict=False):
            if not isinstance(reply, Exception):
                request.settle(reply, confirmed)
            elif isinstance(reply, AWAY):
                trouble = reply
                left.append(request)
            elif isinstance(reply, redis_errors.AskError | redis_errors.TryAgainError):  # MOVED is an AskError too
                elsewhere += self._put_off(node, request, reply)
            else:
                request.settle(_explained(reply) if isinstance(reply, redis_errors.ResponseError) else reply, confirmed)
        return trouble, left

    def _put_off(self, node: Node, request: _R, reply: redis_errors.AskError | redis_errors.TryAgainError) -> list[_R]:
        """Send it where its slot is now, or again in a moment, while its slot is being moved; unless that has been
        going on for too long."""
        now = asyncio.get_running_loop().time()
        request.give_up = request.give_up or now + RETRY_BUDGET_S
        asked, request.asked = request.asked, None
        if isinstance(reply, redis_errors.TryAgainError):
            request.asked = asked  # a part of its keys has gone there already
            request.pause = random.uniform(0.5, 1.5) * min(max(request.pause * 2, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        else:
            host, port = _named(reply)
            there = self._topology.named((host or _host_of(node), port))
            request.pause = 0.0
            if isinstance(reply, redis_errors.MovedError):
                request.pause = SHORTEST_PAUSE_S if there is node else 0.0
                self._topology.moved(reply.slot_id, there)
            else:
                request.asked = there
        if now + request.pause <= request.give_up:
            return [request]
        _settle([request], _unavailable())
        return []


def _topology(address: Address, client: Redis | None, *, plain_scripts: bool) -> Topology:
    match address.kind:
        case "cluster":
            return Cluster(address)
        case "sentinel":
            return Watched(address)
        case _:
            return Fixed(Node(client or connect(address.url), plain_scripts=plain_scripts))


def _named(reply: redis_errors.AskError) -> Host:
    named: Any = reply  # its attributes are untyped
    return str(named.host), int(named.port)


def _host_of(node: Node) -> str:
    return str(node.client.connection_pool.connection_kwargs.get("host", ""))


def _pauses() -> Generator[float]:
    """Growing, jittered."""
    pause = SHORTEST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.5)
        pause = min(pause * 2, LONGEST_PAUSE_S)


def _settle(requests: Iterable[Request], error: Exception) -> None:
    for request in requests:
        request.settle(error, None)


def _raised(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def _unavailable() -> StoreUnavailable:
    return StoreUnavailable("the store does not answer; nothing was lost, send the request again")


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
