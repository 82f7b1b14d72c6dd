"""The write path: one lane a session, in which commands wait for the commit in flight and then leave together."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from eventstore.commit.batch import Answer, Batch, Decider, Pending, Retry
from eventstore.commit.listener import CommitListener
from eventstore.commit.records import (
    DELETED,
    Commit,
    Head,
    confirm_call,
    decode_head,
    decode_loaded,
    delete_call,
    load_call,
    lost,
)
from eventstore.commit.session_queue import SessionQueue
from eventstore.domain.commands import Actor, Command
from eventstore.domain.draft import MissingRecords, Policy
from eventstore.domain.errors import InternalError, LaybyError, Overloaded, SessionDeleted, SessionNotFound
from eventstore.domain.values.ids import random_id
from eventstore.redis_client.clock import Clocks, monotonic_ms
from eventstore.redis_client.pipeline import ScriptPipeline
from eventstore.redis_keys import Keys, SessionKeys

log = logging.getLogger("layby.writer")

CACHED_HEADS = 10_000
CACHED_CHARACTERS = 64_000_000
"""What all of them together keep of their calls; those that were not used for longest are forgotten first."""
ATTEMPTS = 100
"""How often a batch is decided anew, because others write the same session, before the caller hears 503."""
PATIENCE_MS = 5_000
FEW_ATTEMPTS = 3
"""It is also given up after so long, unless it was tried less often."""


class Writer:
    """Executes commands. Shared by everything in this process that writes."""

    def __init__(
        self,
        reads: ScriptPipeline,
        commits: ScriptPipeline,
        keys: Keys,
        clocks: Clocks,
        policy: Policy,
        listener: CommitListener,
        *,
        feed_keep: int,
        max_pending: int,
    ) -> None:
        """`listener` is notified of the commits. `feed_keep`: entries that the feed of a partition keeps.
        `max_pending`: commands that may wait."""
        self._reads: ScriptPipeline = reads
        self._commits: ScriptPipeline = commits
        self._keys: Keys = keys
        self._clocks: Clocks = clocks
        self._decider: Decider = Decider(policy)
        self._listener: CommitListener = listener
        self._feed_keep: int = feed_keep
        self._max_pending: int = max_pending
        self._process: str = random_id("")[:8]
        self._lanes: OrderedDict[tuple[str, str], SessionQueue] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: int = 0
        self._weight: int = 0

    @property
    def waiting(self) -> int:
        """How many commands wait for their answer."""
        return self._waiting

    async def execute(
        self, tenant: str, session_id: str, command: Command, by: Actor, retry: Retry | None = None
    ) -> Answer:
        """Carry a command out, or answer a retry with what the first attempt heard.

        Raises every `LaybyError` that the rules give, and `StoreUnavailable`, `StoreFull`, `Overloaded`.
        """
        answer = await self.submit(tenant, session_id, command, by, retry)
        return answer if answer.durability else answer._replace(durability=await self.confirm(tenant, session_id))

    def submit(
        self, tenant: str, session_id: str, command: Command, by: Actor, retry: Retry | None = None
    ) -> asyncio.Future[Answer]:
        """The same without waiting: commands of a session are carried out in the order of these calls.

        An answer without a durability must be confirmed. Whoever cancels it hears nothing more; the command goes on.
        Raises `Overloaded`, `RequestInProgress`, `IdempotencyKeyReused`; all else is in the answer.
        """
        self.check_room()
        lane = self._lane(tenant, session_id)
        pending = Pending(command, by, asyncio.get_running_loop().create_future(), retry)
        lane.add(pending)
        self._waiting += 1
        self._start(lane)
        return pending.answer

    def under_way(self, tenant: str, session_id: str, retry: Retry) -> asyncio.Future[Answer] | None:
        """The answer that a command with this key will have. Raises `IdempotencyKeyReused`."""
        lane = self._lanes.get((tenant, session_id))
        running = lane and lane.under_way(retry)
        if running and running.answer.cancelled():  # whoever sent it has gone, and it goes on
            running.answer = asyncio.get_running_loop().create_future()
        return running.answer if running else None

    def check_room(self) -> None:
        """Raises `Overloaded` if no command can be taken now; whoever asks first need not read what it is."""
        if self.waiting >= self._max_pending:
            raise Overloaded(f"{self.waiting} requests wait already; try again in a moment")

    async def confirm(self, tenant: str, session_id: str) -> str:
        """The durability of what was committed earlier, perhaps by somebody else. Raises `StoreUnavailable`."""
        if not self._commits.confirms:
            return self._commits.durability
        return (await self._commits.run(confirm_call(self._keys.session(tenant, session_id))))[1]

    async def delete(self, tenant: str, session_id: str) -> None:
        """Delete a session for ever. Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`, `StoreFull`."""
        keys, token = self._keys.session(tenant, session_id), random_id("")
        head = decode_loaded(session_id, await self._reads.reply(load_call(keys))).head
        for _ in range(ATTEMPTS):
            if head.deleted:
                raise SessionDeleted("the session was deleted already")
            if not head.exists:
                raise SessionNotFound
            reply, _reached = await self._commits.run(delete_call(keys, head, self._feed_keep, token))
            if reply[0] == b"ok":
                self._report_entry(keys, reply, 0, 0)
                if lane := self._lanes.get((tenant, session_id)):
                    lane.forget()
                self._listener.committed(keys, Head(DELETED), [])
                return
            head = decode_head(session_id, reply[2])
        raise Overloaded("the session changes faster than it can be deleted; try again")

    def next_due(self, tenant: str, session_id: str) -> int | None:
        """When the next deadline of a session passes, ms, as far as this process knows."""
        lane = self._lanes.get((tenant, session_id))
        return lane.head.session.next_due if lane and lane.head else None

    async def idle(self) -> None:
        """Wait until everything that was accepted has been answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """The same, then let go of the engine."""
        await self.idle()
        await self._commits.close()

    def _lane(self, tenant: str, session_id: str) -> SessionQueue:
        name = (tenant, session_id)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = SessionQueue(self._keys.session(tenant, session_id), self._count_answer)
            self._forget_old()
        self._lanes.move_to_end(name)
        return lane

    def _count_answer(self) -> None:
        self._waiting -= 1

    def _forget_old(self) -> None:
        while len(self._lanes) > CACHED_HEADS or self._weight > CACHED_CHARACTERS:
            name, lane = next(iter(self._lanes.items()))
            if lane.running:
                self._lanes.move_to_end(name)
                return
            del self._lanes[name]
            self._weight -= lane.counted

    def _weigh(self, lane: SessionQueue) -> None:
        """Count what a lane remembers now, while it is running: it is not forgotten just then."""
        weight = lane.weight
        self._weight += weight - lane.counted
        lane.counted = weight

    def _start(self, lane: SessionQueue) -> None:
        if not lane.running:
            lane.running = True
            task = asyncio.get_running_loop().create_task(self._drive(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _drive(self, lane: SessionQueue) -> None:
        """Commit batch after batch until nothing waits."""
        try:
            while lane.queue:
                await self._one_batch(lane)
                lane.trim()
        finally:
            self._weigh(lane)
            lane.running = False
            self._forget_old()

    async def _one_batch(self, lane: SessionQueue) -> None:
        batch = list(lane.queue)
        try:
            began = monotonic_ms()
            for attempt in range(ATTEMPTS):
                if attempt >= FEW_ATTEMPTS and monotonic_ms() - began >= PATIENCE_MS:
                    break
                if await self._attempt(lane, batch):
                    return
                batch = [item for item in batch if item in lane.queue]
                if not batch:
                    return
            raise Overloaded("others write this session at the same time; try again")
        except Exception as error:  # handed on to everyone who waits: none of them may hang
            lane.forget()
            if not isinstance(error, LaybyError):
                log.exception("a commit of session %s failed", lane.keys.session_id)
                error = InternalError()
            for item in batch:
                lane.refuse(item, error)

    async def _attempt(self, lane: SessionQueue, pending: list[Pending]) -> bool:
        """Decide and commit once. True when those who were decided have their answers; else: again."""
        clock = self._clocks.of(lane.keys.partition.number)
        if lane.head is None or not clock.known:
            await self._load(lane, pending, [])
            pending = [item for item in pending if item in lane.queue]
            if not pending:
                return True
        assert lane.head is not None
        began = monotonic_ms()
        try:
            batch = self._decider.decide(lane.head, lane.calls, pending, clock.now(), lane.slowness)
        except MissingRecords as missing:
            await self._load(lane, pending, missing.names)
            return False
        if unchecked := _to_check(batch):
            unchanged = await self._load(lane, unchecked, [])
            if not (batch.empty and unchanged and batch.holds_at(clock.now())):
                return False
        if batch.empty:
            lane.resolve(batch, "")
            return True
        took_ms = monotonic_ms() - began
        self._listener.commit_started(lane.keys)
        try:
            return await self._commit(lane, batch, took_ms)
        finally:
            self._listener.commit_ended(lane.keys)

    async def _load(self, lane: SessionQueue, pending: list[Pending], missing: Sequence[str]) -> bool:
        """Read the head, the calls that are missing or named, and the retry records: all as of the same moment. True
        where head and calls are as they were remembered."""
        named = {name for name in map(_named, pending) if name}
        names = [*missing, *(named - set(missing))]
        retries = {item.retry.field: item for item in pending if item.retry}
        reply = await self._reads.reply(load_call(lane.keys, names, list(retries)))
        loaded = decode_loaded(lane.keys.session_id, reply, names, list(retries))
        self._clocks.of(lane.keys.partition.number).observe(loaded.now)
        unchanged = lane.remembers(loaded)
        self._take_head(lane, loaded.head)
        lane.know(loaded.calls, loaded.sums)
        for item in pending:
            item.checked = True
        for field, record in loaded.records.items():
            lane.replay(retries[field], record)
        return unchanged

    async def _commit(self, lane: SessionQueue, batch: Batch, took_ms: float) -> bool:
        """`took_ms`: how long the batch took to decide."""
        assert lane.head is not None
        commit = batch.commit(lane.keys, lane.head, self._process, lane.sums)
        reply, reached = await self._commits.run(commit.script_call(self._feed_keep))
        word, now = reply[0].decode(), int(reply[1])
        clock = self._clocks.of(lane.keys.partition.number)
        if word == "early":
            clock.correct(now)
        else:
            clock.observe(now)
        lane.slowness = 2 * int(took_ms) if word == "late" else 0
        if word == "ok":
            lane.committed(commit)
            self._report_entry(lane.keys, reply, commit.base.session.seq + 1, commit.session.seq)
        elif word == "lost":
            self._listener.loss_suspected(lane.keys)
            raise lost(lane.keys, int(reply[2].partition(b"-")[0]))
        elif not self._was_ours(lane, commit, reply):
            batch.look_again()
            if word == "changed":
                lane.forget()
            if word == "replay":  # and others of these may have been carried out too
                await self._load(lane, [item for item, _ in batch.outcomes if item.retry], [])
            return False
        # A commit whose first answer was lost is there, but this pipeline confirms only what it wrote itself.
        self._listener.committed(lane.keys, commit.head, commit.lines)
        lane.resolve(batch, reached if word == "ok" else "")
        return True

    def _was_ours(self, lane: SessionQueue, commit: Commit, reply: list[Any]) -> bool:
        """Whether a commit that was refused had taken place before, its first answer lost on the way."""
        if len(reply) < 3:
            return False
        self._take_head(lane, decode_head(lane.keys.session_id, reply[2]))
        return lane.head is not None and lane.head.writers.get(self._process) == commit.revision

    def _take_head(self, lane: SessionQueue, head: Head) -> None:
        """What is stored counts, even where it is older than what this process has seen acknowledged."""
        if lane.head and lane.head.session.seq > head.session.seq and not head.deleted:
            self._listener.loss_suspected(lane.keys)
        lane.take_head(head)

    def _report_entry(self, keys: SessionKeys, reply: Sequence[Any], first: int, last: int) -> None:
        if len(reply) > 2 and isinstance(reply[2], bytes):
            self._listener.feed_entry_written(keys, reply[2], first, last)


def _named(item: Pending) -> str | None:
    return getattr(item.command, "interrupt_id", None)


def _to_check(batch: Batch) -> list[Pending]:
    """Commands whose outcome must not be believed before the store was asked.

    A refusal, or an answer that writes nothing, rests on what this process remembers. It holds if the batch commits,
    since the commit compares the head; else the head must be read. A retry must hear its first answer, whatever
    has become of the session: so its record is looked up before it is refused.
    """
    unchecked = [(item, outcome) for item, outcome in batch.outcomes if not item.checked]
    if batch.empty:
        return [item for item, _ in unchecked]
    return [item for item, outcome in unchecked if item.retry and isinstance(outcome, LaybyError)]
