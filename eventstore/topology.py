"""Which engine serves what: one for all, the master that Sentinels name, or the primaries of a cluster by slot.

What is known is used until something speaks against it: then it is looked up again, in the background, with whoever of
the nodes or Sentinels answers; and now and then anyway. Those who wait learn their new way when they next try.
"""

from __future__ import annotations

import asyncio
import logging
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot

from eventstore.address import Address, Host, UnfitEngine, spell
from eventstore.node import AWAY, Node, connect
from eventstore.tasks import end

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


class Fixed:
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


class _Watched:
    """What topologies that change have in common: the nodes by address, and one look at a time."""

    def __init__(self, address: Address) -> None:
        self.address: Address = address
        self.on_change: list[Callable[[], None]] = []
        self._nodes: dict[Host, Node] = {}
        self._looking: asyncio.Task[None] | None = None
        self._repeating: asyncio.Task[None] | None = None

    def named(self, host: Host) -> Node:
        if host not in self._nodes:
            client = connect(self.address.url_of(host))
            self._nodes[host] = Node(client, f"Redis at {spell(host)}")
        return self._nodes[host]

    def doubt(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again())

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
        for node in over:  # what is under way there may end there
            await node.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        await end(*(task for task in (self._repeating, self._looking) if task))
        for node in self._nodes.values():
            await node.close()


class Watched(_Watched):
    """The master that Sentinels name. The first of them that answers is believed."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.nodes: list[Node] = []
        self.replicas: list[Host] = []
        own: dict[str, Any] = dict(address.sentinel_credentials)
        self._sentinels: Any = Sentinel(list(address.hosts), sentinel_kwargs={**own, **_briefly()})

    @property
    def known(self) -> bool:
        return bool(self.nodes)

    def node(self, key: str | None) -> Node:  # one for all
        return self.nodes[0]

    def moved(self, slot: int, node: Node) -> None: ...

    async def look(self) -> None:
        try:
            host, port = await self._sentinels.discover_master(self.address.master)
            found = await self._sentinels.discover_slaves(self.address.master)
        except redis_errors.ResponseError as error:
            raise UnfitEngine(f"a Sentinel refuses to name the master ({error}); see ?sentinel_password=…") from None
        master = (str(host), int(port))
        self.replicas = [(str(name), int(number)) for name, number in found]
        node = self.named(master)
        if self.nodes != [node]:
            if self.nodes:
                log.warning("the master is %s now", spell(master))
            self.nodes = [node]
            await self._changed([master])

    async def close(self) -> None:
        await super().close()
        await self._sentinels.aclose()


class Cluster(_Watched):
    """The primaries of a cluster, by slot."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.nodes: list[Node] = []
        self.replicas: list[Host] = []
        self._owners: list[tuple[int, int, Host]] = []
        self._routes: dict[str, Node] = {}  # by hash tag: as many as there are partitions, and a few

    @property
    def known(self) -> bool:
        return bool(self.nodes)

    def node(self, key: str | None) -> Node:
        if key is None:
            return self.nodes[0]
        tag = key[key.find("{") + 1 : key.find("}")] if "{" in key else key
        found = self._routes.get(tag)
        if found is None:
            found = self._routes[tag] = self._owner(key_slot(tag.encode()))
        return found

    def _owner(self, slot: int) -> Node:
        at = bisect_right(self._owners, slot, key=lambda owned: owned[0]) - 1
        if at >= 0 and slot <= self._owners[at][1]:
            return self.named(self._owners[at][2])
        return self.nodes[0]  # it will say who serves it, or that nobody does

    def moved(self, slot: int, node: Node) -> None:
        for tag in [tag for tag in self._routes if key_slot(tag.encode()) == slot]:
            self._routes[tag] = node
        self.doubt()

    async def look(self) -> None:
        """Ask one node after another, those first that are not known to be away."""
        asked = list({*self._nodes, *self.replicas, *self.address.hosts})
        random.shuffle(asked)
        asked.sort(key=lambda host: host in self._nodes and self._nodes[host].down)
        trouble: Exception | None = None
        for host in asked:
            try:
                return await self._adopt(host, await self._ask(host))
            except redis_errors.NoPermissionError:
                raise UnfitEngine(
                    f"Redis at {spell(host)} does not tell who serves what: allow +cluster|slots"
                ) from None
            except redis_errors.ResponseError as error:
                raise UnfitEngine(
                    f"redis+cluster:// names {spell(host)}, which is no node of a cluster: {error}"
                ) from None
            except AWAY as error:
                trouble = error
        raise trouble or redis_errors.ConnectionError("no node is known")

    async def _ask(self, host: Host) -> list[Any]:
        redis: Any = Redis  # its keyword arguments are untyped
        client = redis.from_url(self.address.url_of(host), single_connection_client=True, **_briefly())
        try:
            slots: list[Any] = await client.execute_command("CLUSTER SLOTS")
        finally:
            await client.aclose()
        if not slots:
            raise redis_errors.ClusterDownError("no slot is served by anybody")
        return slots

    async def _adopt(self, asked: Host, slots: list[Any]) -> None:
        owners = sorted((int(first), int(last), _host(asked, owner)) for first, last, owner, *_ in slots)
        self.replicas = sorted({_host(asked, one) for _, _, _, *others in slots for one in others})
        if owners == self._owners:
            self._routes.clear()  # what single nodes said before is in it, or is wrong
            return
        self._owners = owners
        hosts = dict.fromkeys(host for _, _, host in owners)
        self.nodes = [self.named(host) for host in hosts]
        self._routes.clear()
        await self._changed(hosts)


def _briefly() -> dict[str, Any]:
    """How a question is asked that another engine can answer as well."""
    return {
        "socket_timeout": LOOK_TIMEOUT_S,
        "socket_connect_timeout": LOOK_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),  # else redis-py tries for seconds
        "protocol": 2,
    }


def _host(asked: Host, about: list[Any]) -> Host:
    """A node as another one names it; without a name of its own it is where that one is."""
    name = about[0].decode() if isinstance(about[0], bytes) else about[0]
    return (name if name and name != "?" else asked[0]), int(about[1])
