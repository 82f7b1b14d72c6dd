"""A master that Sentinels watch: they are asked who it is, and asked again when it does not answer."""

from __future__ import annotations

import logging
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.sentinel import Sentinel

from eventstore.redis_client.connections import track
from eventstore.redis_client.node import Node
from eventstore.redis_client.topology import Discovered, briefly
from eventstore.redis_client.url import Address, Host, UnfitEngine, spell
from eventstore.support.timing import TIMING, Timing

log = logging.getLogger("layby.store")


class SentinelTopology(Discovered):
    """The master that Sentinels name. The first of them that answers is believed."""

    def __init__(self, address: Address, timing: Timing = TIMING) -> None:
        super().__init__(address, timing)
        self.nodes: list[Node] = []
        self.replicas: list[Host] = []
        own: dict[str, Any] = dict(address.sentinel_credentials)
        self._sentinels: Any = Sentinel(list(address.hosts), sentinel_kwargs={**own, **briefly()})
        for sentinel in self._sentinels.sentinels:
            track(sentinel)

    @property
    def known(self) -> bool:
        return bool(self.nodes)

    def node(self, key: str | None) -> Node:  # one for all
        return self.nodes[0]

    def moved(self, slot: int, node: Node) -> None: ...

    async def look(self) -> None:
        try:
            master = await self._find_master()
            found = await self._sentinels.discover_slaves(self.address.master)
        except redis_errors.NoPermissionError as error:
            raise UnfitEngine(
                f"a Sentinel does not let its user name the master ({error}); see ?sentinel_username=…"
            ) from None
        except redis_errors.ResponseError as error:
            raise UnfitEngine(f"redis+sentinel:// names one that is no Sentinel: {str(error).strip()}") from None
        self.replicas = [(str(name), int(number)) for name, number in found]
        node = self.named(master)
        if self.nodes != [node]:
            if self.nodes:
                log.warning("the master is %s now", spell(master))
            self.nodes = [node]
            await self._changed([master])

    async def _find_master(self) -> Host:
        """As redis-py's `discover_master` does, whose error is a list of its clients."""
        name, errors = self.address.master, list[Exception]()
        for number, sentinel in enumerate(self._sentinels.sentinels):
            try:
                about = (await sentinel.sentinel_masters()).get(name)
            except (redis_errors.ConnectionError, redis_errors.TimeoutError) as error:
                errors.append(error)
                continue
            if about and self._sentinels.check_master_state(about, name):
                self._sentinels.sentinels.insert(0, self._sentinels.sentinels.pop(number))  # the first to ask next time
                return str(about["ip"]), int(about["port"])
        if len(errors) < len(self._sentinels.sentinels):
            raise redis_errors.ConnectionError(f"no Sentinel that answers knows a master {name} that is up")
        if all(isinstance(error, redis_errors.AuthenticationError) for error in errors):
            raise UnfitEngine(f"the Sentinels want a password, or another one ({errors[0]}); see ?sentinel_password=…")
        raise redis_errors.ConnectionError(f"no Sentinel answers: {errors[0]}") from errors[0]

    async def close(self) -> None:
        await super().close()
        await self._sentinels.aclose()
