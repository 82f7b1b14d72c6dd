"""The models of one partition in one generation, as they are written: each write compares before it changes.

Whoever folds has read the checkpoint and the views first. Models and checkpoint change in one script, which finds
both as they were read or changes nothing. So it does not matter how many there are that write, or where one of them
is killed: what was folded twice is refused as a whole, and then read again.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace

from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys
from projections import redis_keys
from projections.fold.index_writes import Writes, remove_calls, remove_session, write_session
from projections.fold.session_fold import Folded, Target, fold_new, load_calls, load_views
from projections.projector.feed_batch import FeedBatch, decode_feed_batch, feed_batch_call
from projections.redis_keys import Layout

log = logging.getLogger("layby.projections")

PROJECT = scripts.load("projections", "apply_projection")
SESSIONS_AT_ONCE = 64
WRITES_AT_ONCE = 500
"""About how many writes one script call applies: the engine, and this process, do nothing else meanwhile."""
CALLS_AT_ONCE = 100
"""How many calls of a deleted session are removed at once."""


class Moved(Exception):
    """Somebody was here first: what was read is old, and nothing was written."""


class GenerationGone(Exception):
    """The generation was cleared away while it was being built."""


class Superseded(Exception):
    """Another generation is served by now."""

    def __init__(self, generation: str) -> None:
        super().__init__(generation)
        self.generation: str = generation


class FeedTrimmed(Exception):
    """The feed no longer holds what comes after the checkpoint; only a rebuild helps."""


class Generation:
    """One generation of one partition. `served` says that it must be the one that readers are shown."""

    def __init__(self, connection: RedisClient, keys: Keys, layout: Layout, *, served: bool) -> None:
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self.layout: Layout = layout
        self._served: bool = served
        self._broken: set[tuple[str, str]] = set()

    async def unread(self) -> FeedBatch:
        return decode_feed_batch(await self._connection.run(feed_batch_call(self.layout)))

    async def catch_up(self) -> None:
        """Take in everything that the feed holds now. Raises `FeedTrimmed`, `Superseded`, `GenerationGone`,
        `ModelsDamaged`."""
        goal: str | None = None
        while True:
            unread = await self.unread()
            if self._served and unread.generation != self.layout.generation:
                raise Superseded(unread.generation)
            goal = unread.newest if goal is None else goal
            if unread.reaches(goal):
                return
            if unread.trimmed:
                raise FeedTrimmed(self.layout.partition.feed)
            with contextlib.suppress(Moved):
                await self._take_in(unread)
                if unread.completes(goal):
                    return

    async def bring_up(self, targets: list[Target]) -> None:
        """Bring sessions up to the newest event that they have now. Raises `GenerationGone`.

        What is stored of one in between may end within a commit: nobody is shown it yet.
        """
        replies = await self._connection.commands([("HGET", target.keys.head, "seq") for target in targets])
        targets = [replace(target, goal=int(seq or 0)) for target, seq in zip(targets, replies, strict=True)]
        while True:
            stored = await self._connection.command("GET", self.layout.checkpoint)
            with contextlib.suppress(Moved):
                return await self._fold((stored or b"").decode(), targets)

    async def _take_in(self, unread: FeedBatch) -> None:
        """Write what the entries lead to. Raises `Moved`."""
        targets = [
            Target(self._keys.session(*member), self.layout, commits[-1][1] if commits else 0, commits)
            for member, commits in unread.members.items()
        ]
        living = [target for target in targets if target.name not in unread.deleted]
        for start in range(0, len(living), SESSIONS_AT_ONCE):
            await self._fold(unread.checkpoint, living[start : start + SESSIONS_AT_ONCE])
        for target in targets:
            if target.name in unread.deleted:
                await self._remove(unread.checkpoint, target)
        await self._apply(unread.checkpoint, Writes(), unread.last)

    async def _fold(self, checkpoint: str, targets: list[Target]) -> None:
        while targets:
            folded = await fold_new(self._connection, targets)
            await self._store(checkpoint, folded)
            targets = [one.target for one in folded if one.change and one.change.view.seq < one.target.goal]

    async def _store(self, checkpoint: str, folded: list[Folded]) -> None:
        writes = Writes()
        for one in folded:
            if one.change:
                write_session(writes, self.layout, one.change)
                writes.rests_on(one.target.keys.events, one.change.view.seq, one.hash)
            elif one.broken:  # if only because its view was changed by somebody else meanwhile, this is refused
                writes.expect(one.target.models.view, one.seq)
            if writes.count >= WRITES_AT_ONCE:
                await self._apply(checkpoint, writes)
                writes = Writes()
        if writes.views:
            await self._apply(checkpoint, writes)
        for one in folded:
            if one.broken and one.target.name not in self._broken:
                self._broken.add(one.target.name)
                name = one.target.keys.session_id
                log.error("session %s cannot be projected; run `layby verify %s`", name, name, exc_info=one.broken)

    async def _remove(self, checkpoint: str, target: Target) -> None:
        """Everything of a deleted session, its calls some at a time."""
        (view,) = await load_views(self._connection, [target])
        start = 0
        while names := await self._call_names(target, start):
            writes = Writes()
            remove_calls(writes, self.layout, target.tenant, view, await load_calls(self._connection, target, names))
            await self._apply(checkpoint, writes)
            start += len(names)
        writes = Writes()
        remove_session(writes, self.layout, target.tenant, view)
        await self._apply(checkpoint, writes)

    async def _call_names(self, target: Target, start: int) -> list[str]:
        reply = await self._connection.command("LRANGE", target.models.order, start, start + CALLS_AT_ONCE - 1)
        return [name.decode() for name in reply]

    async def _apply(self, checkpoint: str, writes: Writes, following: str | None = None) -> None:
        """Models and checkpoint, together. After a lost answer this finds its own work done, and reads again."""
        kind, new = "served" if self._served else "built", checkpoint if following is None else following
        keys, args = writes.script()
        keys = [redis_keys.current(self.layout.partition), self.layout.checkpoint, *keys]
        call = ScriptCall(PROJECT, keys, [kind, self.layout.generation, checkpoint, new, *args])
        match await self._connection.run(call):
            case [b"ok"]:
                return
            case [b"gone"]:
                raise GenerationGone(self.layout.generation)
            case _:
                raise Moved
