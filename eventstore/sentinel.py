"""A master that Sentinels watch: they are asked who it is, and asked again when it does not answer."""

from __future__ import annotations

import logging
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.sentinel import Sentinel

from eventstore.address import Address, Host, UnfitEngine, spell
from eventstore.node import Node
from eventstore.topology import Changing, briefly

log = logging.getLogger("layby.store")


class Watched(Changing):
    """The master that Sentinels name. The first of them that answers is believed."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.nodes: list[Node] = []
        self.replicas: list[Host] = []
        own: dict[str, Any] = dict(address.sentinel_credentials)
        self._sentinels: Any = Sentinel(list(address.hosts), sentinel_kwargs={**own, **briefly()})

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
