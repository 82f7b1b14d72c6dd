"""The keys to the door, as one process knows them: asked for once a second, so that no request has to ask.

One small question tells whether anything has changed; only then are the keys read. While the store is away the last
ones count: that it is away opens no door. Expiry is judged at each request, by the engine's clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from eventstore.api_keys.keyring import Keyring
from eventstore.domain.api_keys import AccessKey
from eventstore.domain.errors import StoreUnavailable
from eventstore.redis_client.clock import EngineClock, monotonic_ms
from eventstore.support.tasks import supervise
from eventstore.support.timing import TIMING, Timing

log = logging.getLogger("layby.keys")

_LOST = "lost"
"""In place of the version of a store that had keys, and has none any more."""


class KeyringCache:
    """`read` it once, then let it `run`."""

    def __init__(self, keyring: Keyring, clock: EngineClock, timing: Timing = TIMING) -> None:
        """`clock` is that of the engine that has the keys, whichever that is now: each reading settles it."""
        self._keyring: Keyring = keyring
        self._clock: EngineClock = clock
        self._timing: Timing = timing
        self._version: str | None = None
        self._keys: Mapping[str, AccessKey] = {}

    @property
    def open(self) -> bool:
        """Whether the store never had a key. Once it had one it stays shut here, whatever becomes of the store.

        Raises `StoreUnavailable` before the keys were read.
        """
        if self._version is None:
            raise StoreUnavailable("the keys have not been read yet; try again in a moment")
        return not self._version

    @property
    def live(self) -> int:
        """How many keys open something."""
        now = self._clock.now()
        return sum(key.live_at(now) for key in self._keys.values())

    def find(self, key_id: str | None) -> AccessKey | None:
        """The key, if it is there and opens something now."""
        key = self._keys.get(key_id) if key_id else None
        return key if key and key.live_at(self._clock.now()) else None

    async def read(self) -> None:
        """Take in what has changed. Raises `StoreUnavailable`."""
        asked = monotonic_ms()
        reading = await self._keyring.read(self._version or "")
        self._clock.settle(reading.now, asked)
        if reading.keys is None:
            return
        if self._version and reading.untouched:
            if self._version != _LOST:
                log.error("the store has lost its keys: nothing gets in until there is one again (layby keys create)")
            self._version, self._keys = _LOST, {}
        else:
            if self._version == "" and not reading.untouched:
                log.warning("the store has its first key: from now on nothing gets in without one")
            self._version, self._keys = reading.version, reading.keys

    async def run(self) -> None:
        """Look for changes until cancelled, over every outage, which the connection logs."""
        await supervise(self._read_later, log, failed="the keys could not be read; those known last count")

    async def _read_later(self) -> None:
        await asyncio.sleep(self._timing.keys_read_every_s)
        await self.read()
