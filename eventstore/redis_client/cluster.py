"""A cluster: which of its primaries serves a slot, as one of the nodes tells."""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.crc import key_slot

from eventstore.redis_client.connections import track
from eventstore.redis_client.node import AWAY, Node
from eventstore.redis_client.topology import Discovered, briefly
from eventstore.redis_client.url import Address, Host, UnfitEngine, spell
from eventstore.support.timing import TIMING, Timing


class Cluster(Discovered):
    """The primaries of a cluster, by slot."""

    def __init__(self, address: Address, timing: Timing = TIMING) -> None:
        super().__init__(address, timing)
        self.nodes: list[Node] = []
        self.replicas: list[Host] = []
        self._owners: list[tuple[int, int, Host]] = []
        self._routes: dict[str, Node] = {}  # by hash tag: as many as there are partitions, and a few

    @property
    def known(self) -> bool:
        return bool(self.nodes)

    def node(self, key: str | None) -> Node:
        if key is None:
            return next((node for node in self.nodes if not node.down), self.nodes[0])
        tag = key[key.find("{") + 1 : key.find("}")] if "{" in key else key
        found = self._routes.get(tag)
        if found is None:
            found = self._routes[tag] = self._owner(key_slot(tag.encode()))
        return found

    def _owner(self, slot: int) -> Node:
        at = bisect_right(self._owners, slot, key=lambda owned: owned[0]) - 1
        if at >= 0 and slot <= self._owners[at][1]:
            return self.named(self._owners[at][2])
        return self.node(None)  # it will say who serves it, or that nobody does

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
            except AWAY as error:  # some of these are refusals too, such as that no slot is served
                trouble = error
            except redis_errors.NoPermissionError:
                raise UnfitEngine(
                    f"Redis at {spell(host)} does not tell who serves what: allow +cluster|slots"
                ) from None
            except redis_errors.ResponseError as error:
                raise UnfitEngine(
                    f"redis+cluster:// names {spell(host)}, which is no node of a cluster: {error}"
                ) from None
        raise trouble or redis_errors.ConnectionError("no node is known")

    async def _ask(self, host: Host) -> list[Any]:
        redis: Any = Redis  # its keyword arguments are untyped
        client = track(redis.from_url(self.address.url_of(host), single_connection_client=True, **briefly()))
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


def _host(asked: Host, about: list[Any]) -> Host:
    """A node as another one names it; without a name of its own it is where that one is."""
    name = about[0].decode() if isinstance(about[0], bytes) else about[0]
    return (name if name and name != "?" else asked[0]), int(about[1])
