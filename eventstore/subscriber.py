"""Hears what other processes announce: one connection, whatever the number of tails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from redis import exceptions as redis_errors

from eventstore.connection import Connection
from eventstore.hub import Hub
from eventstore.keys import Keys, parse_marker

log = logging.getLogger("layby.subscriber")

PING_EVERY_S = 5.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
_EXPIRED = "__keyevent@*__:expired"


class Subscriber:
    """Subscribes to the commits of every partition and to markers that the engine lets expire."""

    def __init__(self, connection: Connection, keys: Keys, hub: Hub) -> None:
        self._connection: Connection = connection
        self._hub: Hub = hub
        self._channels: dict[bytes, int] = {p.wake.encode(): p.number for p in keys.all_partitions()}

    async def run(self) -> None:
        """Listen until cancelled, over every loss of the connection."""
        pause = SHORTEST_PAUSE_S
        while True:
            try:
                async with aclosing(self._messages()) as messages:  # whatever ends this, its connection goes with it
                    async for message in messages:
                        pause = SHORTEST_PAUSE_S
                        self._heard(message)
            except (redis_errors.RedisError, OSError) as error:
                log.info("subscription lost (%s); trying again", type(error).__name__)
            except Exception:  # whatever it is, the process must not go deaf
                log.exception("subscription failed; trying again")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _messages(self) -> AsyncGenerator[dict[str, Any], None]:
        """What comes in. Raises once the connection is gone, or silent for too long."""
        pubsub: Any = self._connection.client.pubsub()
        try:
            await pubsub.ssubscribe(*self._channels)
            await pubsub.psubscribe(_EXPIRED)
            self._hub.resync()  # what was committed before we listened was announced to nobody here
            asked = False
            while True:
                message = await pubsub.get_message(timeout=PING_EVERY_S)
                if message is not None:
                    asked = False
                    yield message
                elif asked:
                    raise redis_errors.TimeoutError("no answer to a ping")
                else:
                    asked = True
                    await pubsub.ping()
        finally:
            await pubsub.aclose()

    def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "smessage":
            self._announced(self._channels[message["channel"]], message["data"])
        elif message["type"] == "pmessage" and (found := parse_marker(message["data"].decode(errors="replace"))):
            for listener in self._hub.on_due:
                listener(found, 0)

    def _announced(self, partition: int, data: bytes) -> None:
        try:
            member, seq, due, *_ = data.decode().split(" ")  # a later version may add fields at the end
            news = None if seq == "deleted" else int(seq), int(due) if due else None
        except ValueError:
            log.warning("not an announcement of ours: %.100r", data)
            return
        self._hub.announced(partition, member, *news)
