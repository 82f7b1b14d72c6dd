"""Says so when the store has lost what was acknowledged: after a failover to a replica that lacked it, after an engine
came back without its newest writes, or with an old copy of them.

Every commit adds an entry to the feed of its partition, whose id no other past gives out again (see `commit.lua`). So
whoever remembers an entry can tell whether the past that it knows is still that of the store. Each server remembers the
newest entries that it wrote itself, and looks for them whenever it was cut off, has met something odd, and now and
then; every cursor of a follower names an entry of each partition. What is found missing is recorded in the store, for
`/readyz` and `layby verify`, until an operator acknowledges it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eventstore.commit.listener import CommitListener
from eventstore.feed.cursor import EntryId
from eventstore.feed.entries import entry_id, entry_text
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import Argument, ScriptCall
from eventstore.redis_keys import DIVERGED, STORE, Keys, SessionKeys, member, split_member
from eventstore.support.tasks import supervise

KEPT = scripts.load("eventstore", "find_feed_entries", writes=False)
RECORD = scripts.load("eventstore", "record_divergence")

log = logging.getLogger("layby.store")

REMEMBERED = 128
"""How many entries of a partition a server remembers; of older ones every other goes, so that they reach far back."""
REMEMBERED_IN_ALL = 32_768
"""Where partitions are many, each has an equal share of so many."""
EVERY_S = 20.0
"""How often a server looks although nothing seems odd."""
LEAST_S = 1.0
"""How long it rests after each look, however much seems odd."""
MOST_FIELDS = 1_024
"""The record stays small, whatever happens: partitions up to here, single sessions up to half of it."""
_ACKNOWLEDGED = "acknowledged"


@dataclass(frozen=True, slots=True)
class LostSession:
    """A session of which a server knows that it has lost something: the newest event that was acknowledged (0: its
    deletion was), and the newest that may be left of that past. It may have other events by now."""

    tenant: str
    session_id: str
    acknowledged: int
    common: int


@dataclass(slots=True)
class Divergence:
    """One loss in one partition: when it was noticed (ms, by the engine), the newest feed entry before it (`NONE`: it
    goes back to the beginning), the oldest one that is known to be lost, and the sessions that are known to be hit."""

    partition: int
    noticed: int
    common: EntryId
    lost: EntryId
    sessions: list[LostSession] = field(default_factory=list[LostSession])


class DivergenceLog:
    """What is recorded in the store of what it has lost."""

    def __init__(self, connection: RedisClient) -> None:
        self._connection: RedisClient = connection

    async def all(self) -> list[Divergence]:
        """Everything that nobody has acknowledged, by partition. Raises `StoreUnavailable`."""
        return decode_records(await self._connection.command(*records_command()))

    async def add(self, losses: Iterable[Divergence]) -> int:
        """Record these (`noticed` is set by the engine); how many are new. Raises `StoreUnavailable`, `StoreFull`."""
        return sum(await self._connection.run_each([_record_call(loss) for loss in losses]))

    async def now(self) -> int:
        """The time of the engine that has the record, ms. Raises `StoreUnavailable`."""
        seconds, micros = await self._connection.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def acknowledge(self, told: Sequence[Divergence], until: int) -> None:
        """Forget these, and only these. What was lost up to then is not recorded again by readers that come back late.

        A loss of which another session was named since then stays, with that session. Raises `StoreUnavailable`.
        """
        fields = {name for loss in told for name in _fields(loss)}
        known = {name.decode() for name in await self._connection.command("HKEYS", DIVERGED)}
        fields -= {" ".join(name.split(" ")[:2]) for name in known - fields if name.count(" ") == 2}
        await self._connection.command("HSET", DIVERGED, _ACKNOWLEDGED, until)
        if fields:
            await self._connection.command("HDEL", DIVERGED, *sorted(fields))


def records_command() -> Sequence[Argument]:
    """Asks for all that is recorded."""
    return ("HGETALL", DIVERGED)


def decode_records(reply: dict[bytes, bytes] | Sequence[bytes]) -> list[Divergence]:
    """What the answer says, by partition, the earliest loss first."""
    flat = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    named = {tuple(name.decode().split(" ")): value.decode().split(" ") for name, value in flat.items()}
    found = {
        name: Divergence(int(name[0]), int(value[0]), entry_id(name[1].encode()), entry_id(value[1].encode()))
        for name, value in named.items()
        if len(name) == 2  # partition, common
    }
    for name, value in named.items():
        if len(name) == 3 and (loss := found.get(name[:2])):  # and member
            loss.sessions.append(LostSession(*split_member(name[2]), int(value[0]), int(value[1])))
    return sorted(found.values(), key=lambda loss: (loss.partition, loss.common))


def _fields(loss: Divergence) -> list[str]:
    """What it is recorded in: a field of its own, and one for each session."""
    name = f"{loss.partition} {entry_text(loss.common)}"
    return [name, *(f"{name} {member(one.tenant, one.session_id)}" for one in loss.sessions)]


def _record_call(loss: Divergence) -> ScriptCall:
    args: list[Argument] = [loss.partition, entry_text(loss.common), entry_text(loss.lost), MOST_FIELDS]
    for one in loss.sessions:
        args += [member(one.tenant, one.session_id), one.acknowledged, one.common]
    return ScriptCall(RECORD, [DIVERGED], args)


def earlier(point: EntryId, after: EntryId, known: Iterable[Divergence]) -> EntryId:
    """Where a reader goes on that stood at `after`, which is lost, and `point` is the newest entry before that.

    If the clocks of two engines differ, `point` may be newer than the loss. A loss that was noticed since tells better.
    """
    return min([point, *(loss.common for loss in known if loss.common < after and loss.noticed >= after[0])])


@dataclass(frozen=True, slots=True)
class _Entry:
    """A feed entry that this process has written, and whose events those were."""

    id: bytes
    keys: SessionKeys
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Gone:
    """Entries of a partition that are gone, and what that means."""

    entries: set[_Entry]
    loss: Divergence


class DivergenceMonitor(CommitListener):
    """What one process remembers, and looks for in the store."""

    def __init__(
        self, connection: RedisClient, keys: Keys, constants: Mapping[str, Argument], notifier: CommitListener
    ) -> None:
        """`constants` are fields of `layby:store` that never change, and are put back where they are lost too.
        `notifier` is notified of each loss that is found."""
        self._constants: Mapping[str, Argument] = constants
        self._notifier: CommitListener = notifier
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self._records: DivergenceLog = DivergenceLog(connection)
        self._entries: dict[int, list[_Entry]] = {}
        self._most: int = min(REMEMBERED, REMEMBERED_IN_ALL // keys.partitions)
        self._fresh: set[int] = set()
        self._wake: asyncio.Event = asyncio.Event()

    def feed_entry_written(self, keys: SessionKeys, entry: bytes, first: int, last: int) -> None:
        number = keys.partition.number
        entries = self._entries.setdefault(number, [])
        entries.append(_Entry(entry, keys, first, last))
        if len(entries) > self._most:
            del entries[: self._most // 2 : 2]
        self._fresh.add(number)

    def announcements_missed(self) -> None:
        self.schedule_check()

    def loss_suspected(self, keys: SessionKeys | None = None) -> None:
        self.schedule_check()

    def schedule_check(self) -> None:
        """Check soon, everywhere."""
        self._fresh |= self._entries.keys()
        self._wake.set()

    async def run(self) -> None:
        """Check until cancelled."""
        await supervise(
            self._round,
            log,
            put_off="what was written was not looked for: %s",
            failed="what was written could not be looked for; trying again",
            pause_s=lambda: LEAST_S,
        )

    async def _round(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY_S):
                await self._wake.wait()
        self._wake.clear()
        await self.check()
        await asyncio.sleep(LEAST_S)

    async def check(self) -> None:
        """Look for what is remembered, and record what is gone. Raises `StoreUnavailable`, `StoreFull`.

        A loss takes the newest entries of its moment. So where nothing was written since the last look, the newest
        will do; else all are looked for, since newer ones may have come after a loss.
        """
        fresh, self._fresh = self._fresh, set()
        try:
            asked = {n: entries[:] if n in fresh else entries[-1:] for n, entries in self._entries.items() if entries}
            if numbers := [gone.loss.partition for gone in await self._gone(asked)]:
                await self._tell(await self._gone({number: self._entries[number][:] for number in numbers}))
        except BaseException:
            self._fresh |= fresh
            raise

    async def _gone(self, asked: dict[int, list[_Entry]]) -> list[_Gone]:
        calls = [
            ScriptCall(KEPT, [self._keys.partition(number).feed], [entry.id for entry in entries])
            for number, entries in asked.items()
        ]
        replies = await self._connection.run_each(calls)
        found = zip(asked.items(), replies, strict=True)
        return [gone for (number, entries), reply in found if (gone := _compare(number, entries, reply))]

    async def _tell(self, found: Sequence[_Gone]) -> None:
        """Record it, once, and forget what is gone."""
        await self._connection.commands([("HSETNX", STORE, *constant) for constant in self._constants.items()])
        await self._records.add(gone.loss for gone in found)
        for gone in found:
            number = gone.loss.partition
            self._entries[number] = [entry for entry in self._entries[number] if entry not in gone.entries]
        self._notifier.loss_found(len(found))
        sessions = [one for gone in found for one in gone.loss.sessions]
        log.error(
            "the store has lost acknowledged events, in %d partitions and at least %d sessions (the first: %s): it went"
            " back to an earlier state. Run `layby verify`, which names them; followers hear `diverged`",
            len(found), len(sessions), sessions[0].session_id,
        )  # fmt: skip


def _compare(number: int, entries: Sequence[_Entry], reply: Sequence[bytes]) -> _Gone | None:
    """What is gone of these entries, by the reply of the script."""
    words = dict(zip(entries, reply[1:], strict=True))
    gone = [entry for entry, word in words.items() if word == b"gone"]
    if not gone:
        return None
    before = [entry for entry in entries[: entries.index(gone[0])] if words[entry] == b"kept"]
    common = entry_id(before[-1].id) if before else entry_id(reply[0])
    sessions = dict[str, LostSession]()
    for entry in gone:
        keys, known = entry.keys, sessions.get(entry.keys.member)
        first = known.common if known else max(0, entry.first - 1)
        sessions[keys.member] = LostSession(keys.tenant, keys.session_id, entry.last, first)
    return _Gone(set(gone), Divergence(number, 0, common, entry_id(gone[0].id), list(sessions.values())))
