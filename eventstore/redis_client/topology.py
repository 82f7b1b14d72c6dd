"""Which engine serves what: one for all, for ever (here), or others from time to time (`sentinel.py`, `cluster.py`).

What is known is used until something speaks against it: then it is looked up again, in the background, with whoever of
the nodes or Sentinels answers; and now and then anyway. Those who wait learn their new way when they next try.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from eventstore.redis_client.node import AWAY, Node, connect
from eventstore.redis_client.url import Address, Host, UnfitEngine, spell
from eventstore.support.tasks import SingleFlight, end
from eventstore.support.timing import TIMING, Timing

log = logging.getLogger("layby.store")

LOOK_TIMEOUT_S = 1.0
BETWEEN_LOOKS_S = 0.1
LOOK_EVERY_S = 2.0
"""How often it is looked up who serves what while nothing speaks against it, such as engines that hang."""


class Topology(Protocol):
    """Where each request goes. `on_change` is told when that has changed."""

    on_change: list[Callable[[], None]]

    @property
    def known(self) -> bool: ...

    @property
    def nodes(self) -> list[Node]:
        """Every engine that takes writes."""
        ...

    @property
    def replicas(self) -> list[Host]: ...

    def node(self, key: str | None) -> Node:
        """Who serves this key; anybody, where there is none."""
        ...

    def named(self, host: Host) -> Node:
        """The engine at an address that another one named."""
        ...

    def moved(self, slot: int, node: Node) -> None:
        """An engine said who serves this slot."""
        ...

    def doubt(self) -> None:
        """Something speaks against what is known: look again, soon."""
        ...

    async def look(self) -> None:
        """Look now. Raises one of `AWAY`, `UnfitEngine`."""
        ...

    async def close(self) -> None: ...


class SingleNode:
    """One engine, for ever."""

    known: bool = True

    def __init__(self, node: Node, *, shared: bool = False) -> None:
        """`shared`: somebody else closes the node."""
        self.nodes: list[Node] = [node]
        self.replicas: list[Host] = []
        self.on_change: list[Callable[[], None]] = []
        self._shared: bool = shared

    def node(self, key: str | None) -> Node:  # one for all
        return self.nodes[0]

    def named(self, host: Host) -> Node:  # a cluster of one may be spoken to as one Redis
        return self.nodes[0]

    def moved(self, slot: int, node: Node) -> None: ...

    def doubt(self) -> None: ...

    async def look(self) -> None: ...

    async def close(self) -> None:
        if not self._shared:
            await self.nodes[0].close()


class Discovered:
    """What topologies that change have in common: the nodes by address, and one look at a time."""

    def __init__(self, address: Address, timing: Timing = TIMING) -> None:
        self.address: Address = address
        self._timing: Timing = timing
        self.on_change: list[Callable[[], None]] = []
        self._nodes: dict[Host, Node] = {}
        self._leaving: dict[Node, asyncio.Task[None]] = {}
        self._looks: SingleFlight[None, None] = SingleFlight()
        self._repeating: asyncio.Task[None] | None = None

    def named(self, host: Host) -> Node:
        if host not in self._nodes:
            client = connect(self.address.url_of(host), self._timing)
            self._nodes[host] = Node(client, f"Redis at {spell(host)}", timing=self._timing)
        return self._nodes[host]

    def doubt(self) -> None:
        self._looks.join(None, self._look_again)

    async def _look_again(self) -> None:
        try:
            await self.look()
        except (*AWAY, redis_errors.RedisError, UnfitEngine) as error:
            log.info("nobody told where the store is: %s", error)
        await asyncio.sleep(BETWEEN_LOOKS_S * random.uniform(0.5, 1.5))

    async def look(self) -> None:
        raise NotImplementedError

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S * random.uniform(0.8, 1.2))
            self.doubt()

    async def _changed(self, kept: Iterable[Host]) -> None:
        """Tell those who want to know, and let go of nodes that are no longer part of it."""
        if self._repeating is None:
            self._repeating = asyncio.create_task(self._repeat())
        kept = set(kept)
        over = [self._nodes.pop(host) for host in list(self._nodes) if host not in kept]
        for listener in self.on_change:
            listener()
        for node in over:
            self._leaving[node] = asyncio.create_task(self._leave(node))

    async def _leave(self, node: Node) -> None:
        """Round trips under way there may end there; one that takes longer for a reply would fail anyway."""
        await asyncio.sleep(self._timing.reply_s)
        await node.close()
        del self._leaving[node]

    async def close(self) -> None:
        if self._repeating:
            await end(self._repeating)
        await self._looks.close()
        await end(*self._leaving.values())
        for node in [*self._nodes.values(), *self._leaving]:
            await node.close()


def briefly() -> dict[str, Any]:
    """How a question is asked that another engine can answer as well."""
    return {
        "socket_timeout": LOOK_TIMEOUT_S,
        "socket_connect_timeout": LOOK_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),  # else redis-py tries for seconds
        "protocol": 2,
    }
