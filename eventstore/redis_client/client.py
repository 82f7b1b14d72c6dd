"""The one road to Redis: every request to the engine that serves its key, again within a budget, and words for what
can go wrong.

What goes to several engines goes to all of them at once; one that does not answer holds up only what is meant for it.
Every script and command of ours is safe to repeat, but what was answered is not sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from eventstore.domain.errors import Overloaded, StoreUnavailable
from eventstore.redis_client.cluster import Cluster
from eventstore.redis_client.node import MAX_CONNECTIONS, Node, Request, connect
from eventstore.redis_client.retries import Sender
from eventstore.redis_client.scripts import Argument, ScriptCall
from eventstore.redis_client.sentinel import SentinelTopology
from eventstore.redis_client.topology import SingleNode, Topology
from eventstore.redis_client.url import Address, parse
from eventstore.support.tasks import heed_cancellation
from eventstore.support.timing import TIMING, Timing

__all__ = ["MAX_CONNECTIONS", "RedisClient", "Request"]

_T = TypeVar("_T")


class RedisClient:
    """Pools of connections to the engines of one store, shared by everything in this process."""

    def __init__(self, url: str, *, topology: Topology | None = None, timing: Timing = TIMING) -> None:
        """`topology`: where the engines are, if not where the URL says. Raises `WrongAddress`."""
        self._url: str = url
        self._timing: Timing = timing
        self.topology: Topology = topology or _topology(parse(url), timing)
        self.sender: Sender = Sender(self.topology, timing)

    @property
    def client(self) -> Any:
        """The client of the engine; of several, of one of them."""
        return self.topology.node(None).client

    @property
    def nodes(self) -> list[Node]:
        """Every engine that takes writes, once they are known."""
        return self.topology.nodes

    @property
    def clustered(self) -> bool:
        """Whether several engines share the store, each with a clock of its own."""
        return isinstance(self.topology, Cluster)

    @property
    def changes(self) -> bool:
        """Whether another engine may take over."""
        return not isinstance(self.topology, SingleNode)

    def another(self) -> RedisClient:
        """A client of the same store with connections of its own."""
        return RedisClient(self._url, timing=self._timing)

    def at(self, node: Node) -> RedisClient:
        """The same, to one engine alone; it need not be closed."""
        return RedisClient("", topology=SingleNode(node, shared=True), timing=self._timing)

    async def close(self) -> None:
        await self.topology.close()

    def shares(self, things: Iterable[_T], key: Callable[[_T], str]) -> dict[Node, list[_T]]:
        """These things, by the engine that serves the key of each."""
        return _grouped(things, lambda thing: self.topology.node(key(thing)))

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
        await self.sender.find()
        for node in list(self.nodes):
            at, cursor = self.at(node), b"0"
            while True:
                cursor, keys = await at.command("SCAN", cursor, "MATCH", match, "COUNT", count)
                for key in keys:
                    yield key
                if int(cursor) == 0:
                    break

    async def _answers(self, requests: list[Request], last: Sequence[Argument] = ()) -> list[Any]:
        """The reply of each, or what it was refused with."""
        if not self.topology.known:
            await self.sender.find()
        left = requests
        while left:
            groups = self._by_node(left)
            if len(groups) == 1:
                left = await self.sender.send(*groups[0], last)
            else:
                sent = await asyncio.gather(*(self.sender.send(node, group, last) for node, group in groups))
                left = [request for again in sent for request in again]
            if pause := max((request.pause for request in left), default=0):
                await asyncio.sleep(pause)
        heed_cancellation()
        return [request.reply for request in requests]

    def _by_node(self, requests: list[Request]) -> list[tuple[Node, list[Request]]]:
        if isinstance(self.topology, SingleNode):  # nothing to look up, however many there are
            return [(self.topology.nodes[0], requests)]
        return list(_grouped(requests, self.sender.node).items())


def _topology(address: Address, timing: Timing) -> Topology:
    match address.kind:
        case "cluster":
            return Cluster(address, timing)
        case "sentinel":
            return SentinelTopology(address, timing)
        case _:
            return SingleNode(Node(connect(address.url, timing), timing=timing))


def _grouped(things: Iterable[_T], node: Callable[[_T], Node]) -> dict[Node, list[_T]]:
    groups = dict[Node, list[_T]]()
    for thing in things:
        groups.setdefault(node(thing), []).append(thing)
    return groups


def _raised(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
