"""Brings the read models of a partition that are served up to the end of its feed."""

from __future__ import annotations

import asyncio

from eventstore.redis_client.client import RedisClient
from eventstore.redis_keys import Keys, PartitionKeys
from projections.projector.generation import Generation, Superseded
from projections.redis_keys import FIRST_GENERATION, Layout


class Projector:
    """The projector of one partition. What it remembers, which generation is served, is a guess: every script is told
    the guess, and says where it is wrong."""

    def __init__(self, connection: RedisClient, keys: Keys, number: int) -> None:
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self._lock: asyncio.Lock = asyncio.Lock()
        self.partition: PartitionKeys = keys.partition(number)
        self._models: Generation = self._serving(FIRST_GENERATION)

    @property
    def layout(self) -> Layout:
        """The generation that is served, as last seen."""
        return self._models.layout

    def serves(self, generation: str) -> bool:
        """Take note of the generation that is served; False if it is another than before."""
        if generation == self.layout.generation:
            return True
        self._models = self._serving(generation)
        return False

    def _serving(self, generation: str) -> Generation:
        return Generation(self._connection, self._keys, Layout(self.partition, generation), served=True)

    async def catch_up(self) -> str:
        """Take in everything that the feed held when this was called. Gives the generation that holds it.

        Raises `FeedTrimmed`, `ModelsDamaged`.
        """
        async with self._lock:
            while True:
                models = self._models
                try:
                    await models.catch_up()
                except Superseded as by:
                    self.serves(by.generation)
                else:
                    return models.layout.generation
