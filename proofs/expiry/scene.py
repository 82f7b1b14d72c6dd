"""Many open calls: sessions full of them, calls that fall due at a chosen time, and what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from eventstore.domain.values import timestamps
from eventstore.redis_keys import Keys
from proofs.client import Client, expect, opened, stream_lines
from proofs.engines import Engine
from proofs.proof import Run
from proofs.servers import Server

DAY_MS = 86_400_000
CLIENTS = 24
PARTITIONS = 64
READ_AT_ONCE = 100
MEASURABLE = 400
"""So many requests tell how many a second there can be."""


@dataclass(frozen=True, slots=True)
class Due:
    """A call that is to expire: where it waits, and its deadline, ms."""

    session_id: str
    interrupt_id: str
    at: int


@dataclass(frozen=True, slots=True)
class Expired:
    """An `input.expired` as it is stored; times are in milliseconds."""

    interrupt_id: str
    deadline: int
    recorded: int


class Scene:
    """One engine with its open calls, and the calls of each part that were asked to expire."""

    def __init__(self, run: Run, engine: Engine, server: Server) -> None:
        self.run: Run = run
        self.engine: Engine = engine
        self.server: Server = server
        self.random: random.Random = random.Random(run.seed)
        self.open_calls: int = run.pick(quick=2_000, full=300_000, mutated=800)
        self.sessions: int = run.pick(quick=200, full=10_000, mutated=400)
        self.due: list[Due] = []
        self.patience_s: float = run.pick(quick=60.0, full=180.0, mutated=4.0)
        self.requests_per_s: float = 0.0

    async def fill(self) -> None:
        """Make the sessions, with calls in them that wait until tomorrow."""
        each, began = self.open_calls // self.sessions, time.monotonic()
        waiting = iter(range(self.sessions))

        async def work(client: Client) -> None:
            for number in waiting:
                made = await client.request("POST", "/v1/sessions", {"session_id": session(number)})
                expect(made, 201)
                far = [_ask(f"open-{n}", {"expires_in_ms": DAY_MS}) for n in range(each)]
                expect(await client.request("POST", _events(session(number)), far), 201)
                if number % 500 == 0:
                    self.run.progress(f"{number * each:,} of {self.open_calls:,} calls are open")

        await self.many(work)
        seconds = time.monotonic() - began
        self.requests_per_s = 2 * self.sessions / seconds
        self.run.figure("open calls", each * self.sessions)
        self.run.figure("asked", f"{self.open_calls / seconds:,.0f}/s")
        await self.judge_inbox()

    async def many(self, work: Any) -> None:
        """The same work by many clients at once."""

        async def one() -> None:
            async with self.server.client() as client:
                await work(client)

        await asyncio.gather(*(one() for _ in range(CLIENTS)))

    def plan(self, part: str, offsets_ms: Sequence[int]) -> list[tuple[str, str, int]]:
        """Spread calls over the sessions: session, id, and when it falls due after the beginning of the part."""
        places = [session(n % self.sessions) for n in range(len(offsets_ms))]
        self.random.shuffle(places)
        return [
            (place, f"{part}-{n}", offset) for n, (place, offset) in enumerate(zip(places, offsets_ms, strict=True))
        ]

    async def ask(self, part: str, offsets_ms: Sequence[int]) -> int:
        """Ask for calls that fall due so many milliseconds after a beginning; when that is, ms. It is late enough for
        all to have been asked; on a machine too slow for that, it is tried again, later."""
        lead_s = 0.5 + 1.5 * min(len(offsets_ms), self.sessions) / self.requests_per_s
        for attempt in range(3):
            begin = await self.now() + int(1000 * lead_s)
            due = [Due(place, name, begin + at) for place, name, at in self.plan(f"{part}{attempt}", offsets_ms)]
            if await self._asked_or_told(due):
                return begin
            lead_s *= 3
        raise RuntimeError(f"{len(offsets_ms)} calls could not be asked in {lead_s / 3:.0f} s")

    async def _asked_or_told(self, due: Iterable[Due]) -> bool:
        """`_asked`. Where a server is too busy to answer, the logs may say with what: one that lets the same calls
        expire again and again has no time left for asks. No more is judged: what was asked need not be due yet."""
        try:
            return await self._asked(due)
        except (OSError, EOFError, RuntimeError):
            await self._once_at_most()
            raise

    async def _asked(self, due: Iterable[Due]) -> bool:
        """Whether all were taken before their deadlines. Those that were are to expire in any case."""
        by_session = dict[str, list[Due]]()
        for one in due:
            by_session.setdefault(one.session_id, []).append(one)
        waiting, all_taken, began = iter(by_session.items()), True, time.monotonic()

        async def work(client: Client) -> None:
            nonlocal all_taken
            for session_id, calls in waiting:
                asks = [_ask(one.interrupt_id, {"expires_at": timestamps.text(one.at)}) for one in calls]
                answer = await client.request("POST", _events(session_id), asks)
                if answer.status == 422 and b"deadline" in answer.body:
                    all_taken = False
                    return
                expect(answer, 201)
                self.due += calls

        await self.many(work)
        if all_taken and len(by_session) >= MEASURABLE:  # the requests that fill are larger, and slower
            self.requests_per_s = len(by_session) / (time.monotonic() - began)
        return all_taken

    async def now(self) -> int:
        """The engine's clock, ms."""
        seconds, micros = await asyncio.to_thread(self.engine.client.time)
        return seconds * 1000 + micros // 1000

    async def overdue(self) -> int:
        """How many sessions hold something that is due, by the index of the engine."""
        now = await self.now()
        pipe = self.engine.client.pipeline(transaction=False)
        for partition in Keys(PARTITIONS).all_partitions():
            pipe.zcount(partition.deadlines, "-inf", now)
        return sum(await asyncio.to_thread(pipe.execute))

    async def until_swept(self, last_ms: int, what: str) -> None:
        """Wait until this time has passed and nothing is overdue; give up where it does not become less any more."""
        fewest, give_up = self.sessions + 1, 0.0
        while True:
            with contextlib.suppress(RedisError):
                left, over = await self.overdue(), await self.now() > last_ms
                if over and not left:
                    return
                if not over or left < fewest:
                    fewest, give_up = left if over else fewest, time.monotonic() + self.patience_s
                self.run.progress(
                    f"{what}: {left:,} sessions hold something that is due" if over else f"{what}: not yet"
                )
                if time.monotonic() > give_up:
                    await self.judge()  # which may say more
                    self.run.check(False, f"{what}: {left} sessions hold a call that was due; nobody lets it expire")
            await asyncio.sleep(0.1)

    async def judge(self) -> dict[str, Expired]:
        """Every call that was due has expired once, not early, and no other has; by its id, how it did."""
        owed = dict[str, dict[str, int]]()
        for one in self.due:
            owed.setdefault(one.session_id, {})[one.interrupt_id] = one.at
        by_session = await self._once_at_most()
        for name, expired in by_session.items():
            self._as_owed(name, owed.get(name, {}), expired)
        return {one.interrupt_id: one for expired in by_session.values() for one in expired}

    async def _once_at_most(self) -> dict[str, list[Expired]]:
        """What has expired so far in each session: no call twice."""
        by_session = dict[str, list[Expired]]()
        for start in range(0, self.sessions, READ_AT_ONCE):
            names = [session(n) for n in range(start, min(start + READ_AT_ONCE, self.sessions))]
            by_session |= zip(names, await asyncio.to_thread(self._expired, names), strict=True)
        for name, expired in by_session.items():
            self._none_twice(name, expired)
        return by_session

    def _expired(self, names: Sequence[str]) -> list[list[Expired]]:
        """As the logs have it in the engine: a reader of Layby's would let what is due expire."""
        pipe = self.engine.client.pipeline(transaction=False)
        for name in names:
            pipe.xrange(Keys(PARTITIONS).session("default", name).events)
        return [
            [_as_expired(json.loads(entry["e"])) for _, entry in log if '"type":"input.expired"' in entry["e"]]
            for log in pipe.execute()
        ]

    def _none_twice(self, session_id: str, expired: list[Expired]) -> None:
        for name, times in Counter(one.interrupt_id for one in expired).items():
            self.run.check(times == 1, f"session {session_id}: call {name} expired {times} times, not once")

    def _as_owed(self, session_id: str, owed: dict[str, int], expired: list[Expired]) -> None:
        check, there = self.run.check, {one.interrupt_id for one in expired}
        missing, extra = sorted(owed.keys() - there), sorted(there - owed.keys())
        check(not missing, f"session {session_id}: {missing[:3]} were due, and have not expired")
        check(not extra, f"session {session_id}: {extra[:3]} have expired, and are not due before tomorrow")
        wrong = [one for one in expired if one.recorded < one.deadline or one.deadline != owed[one.interrupt_id]]
        check(not wrong, f"session {session_id}: expired before its deadline, or by another one: {wrong[:1]}")

    async def judge_inbox(self) -> None:
        """What still waits is what was never due. The read models may have much to catch up with."""
        async with self.server.client(timeout_s=120) as client:
            inbox = (await client.insist("GET", "/v1/calls?limit=1", limit_s=300))[0].json()
        wanted = self.open_calls // self.sessions * self.sessions
        self.run.check(inbox["total"] == wanted, f"the inbox counts {inbox['total']} calls; {wanted} still wait")


def session(number: int) -> str:
    return f"s{number}"


def _events(session_id: str) -> str:
    return f"/v1/sessions/{session_id}/events"


def _ask(interrupt_id: str, deadline: dict[str, Any]) -> dict[str, Any]:
    data = {"interrupt_id": interrupt_id, "tool_name": "pay", "tool_args": {"euros": 7}, **deadline}
    return {"type": "input.requested", "data": data}


def _as_expired(event: dict[str, Any]) -> Expired:
    data = event["data"]
    return Expired(data["interrupt_id"], timestamps.parse(data["expires_at"]), timestamps.parse(event["time"]))


async def follow(server: Server, seen: dict[str, float], connected: asyncio.Event) -> None:
    """Note by which time (ms) a follower of all sessions is shown each expiry, until cancelled."""
    async with opened(server.port, "/v1/stream?cursor=now&types=input.expired") as (head, reader):
        expect(head, 200)
        connected.set()
        async for lines in stream_lines(reader):
            for line in filter(None, lines):
                seen[json.loads(line)["data"]["interrupt_id"]] = time.time() * 1000


async def rate_at_rest(engine: Engine, seconds: float, patience_s: float, quiet: float) -> float:
    """Commands a second that the engine hears while nobody wants anything. It is waited for until the read models are
    up to date, which ends below `quiet`."""

    async def commands() -> int:
        return (await asyncio.to_thread(engine.client.info, "stats"))["total_commands_processed"]

    give_up = time.monotonic() + patience_s
    while True:
        before, began = await commands(), time.monotonic()
        await asyncio.sleep(seconds)
        rate = (await commands() - before) / (time.monotonic() - began)
        if rate < quiet or time.monotonic() > give_up:
            return rate
