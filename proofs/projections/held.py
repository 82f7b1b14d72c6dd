"""Projectors in processes of their own, which stop dead before or after a write of theirs: to be killed there, or to go
on later with what they had read before."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys
from projections.projector.generation import PROJECT
from projections.projector.partition import Projector
from projections.projector.rebuild import SWITCH, Rebuild
from proofs.stores import offline

Work = Callable[[RedisClient, Keys], Awaitable[object]]
Where = Literal["before", "after"]
Stop = tuple[int, Where]
"""At which write, from 1."""
PATIENCE_S = 60.0
_STOPPED, _ENDED = b"s", b"e"


@dataclass
class Held:
    """The process. It says when it has stopped, and goes on when it is told to."""

    pid: int
    _told: int
    _tell: int

    def stopped(self) -> bool:
        """Wait until it stops; False if it came to its end before that."""
        ready, _, _ = select.select([self._told], [], [], PATIENCE_S)
        if not ready:
            raise TimeoutError("a projector neither stopped nor ended")
        return os.read(self._told, 1) == _STOPPED

    def go_on(self) -> bool:
        """From where it stopped, to where it stops again; False if it came to its end."""
        os.write(self._tell, b"g")
        if self.stopped():
            return True
        self._over()
        return False

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._over()

    def _over(self) -> None:
        os.waitpid(self.pid, 0)
        os.close(self._told)
        os.close(self._tell)


def projecting(url: str, partition: int, *stops: Stop) -> Held:
    """A projector of the partition, which stops before or after some of its writes."""

    async def work(client: RedisClient, keys: Keys) -> None:
        await Projector(client, keys, partition).catch_up()

    return _forked(url, work, PROJECT, *stops)


def rebuilding(url: str, partition: int) -> Held:
    """A rebuild of the partition, which stops after it wrote the first sessions of the new generation."""
    return _forked(url, _rebuild(partition), PROJECT, (1, "after"))


def about_to_switch(url: str, partition: int) -> Held:
    """A rebuild of the partition, which stops just before it switches."""
    return _forked(url, _rebuild(partition), SWITCH, (1, "before"))


def _rebuild(partition: int) -> Work:
    async def work(client: RedisClient, keys: Keys) -> None:
        await Rebuild(client, keys).partition(partition)

    return work


def _forked(url: str, work: Work, script: object, *stops: Stop) -> Held:
    """Not to be called while an event loop runs: a fork is a copy of this process, without its other threads."""
    told, say = os.pipe()
    heard, tell = os.pipe()
    if pid := os.fork():
        os.close(say)
        os.close(heard)
        return Held(pid, told, tell)
    try:
        asyncio.run(_run(url, work, _Stopping(script, stops, say, heard)))
        os.write(say, _ENDED)
    finally:
        os._exit(0)


@dataclass
class _Stopping:
    script: object
    stops: tuple[Stop, ...]
    say: int
    heard: int
    count: int = 0

    def here(self, where: Where) -> None:
        if (self.count, where) in self.stops:
            os.write(self.say, _STOPPED)
            os.read(self.heard, 1)  # the whole process stands still, as one that the system has stopped


async def _run(url: str, work: Work, stop: _Stopping) -> None:
    async with offline(url) as (client, store):
        _replace(client, _stopping(client.run, stop))
        await work(client, store.keys)


def _stopping(run: Callable[[ScriptCall], Awaitable[Any]], stop: _Stopping) -> Callable[[ScriptCall], Awaitable[Any]]:
    async def stopping(call: ScriptCall) -> Any:
        if call.script is not stop.script:
            return await run(call)
        stop.count += 1
        stop.here("before")
        reply = await run(call)
        stop.here("after")
        return reply

    return stopping


def _replace(connection: RedisClient, run: Callable[[ScriptCall], Awaitable[Any]]) -> None:
    connection.run = run  # pyright: ignore[reportAttributeAccessIssue]  # a method of this one object
