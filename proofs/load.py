"""Publishers and readers that go on whatever breaks, and what they were told: for comparing it with what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from proofs.client import TIMEOUT_S, Client, opened, page_through, stream_lines
from proofs.engines import Engine
from proofs.proof import Breach, Run
from proofs.servers import Server

KIND = "load.event"


@dataclass
class Writer:
    """Appends numbered events to a session of its own, one at a time, each with one Idempotency-Key until it is
    acknowledged; over all the servers in turn."""

    session_id: str
    ports: Sequence[int]
    padding: int = 0
    pause_s: float = 0.0
    acknowledged: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    """Of each number: the seq and the durability that were answered."""
    answered_at: list[float] = field(default_factory=list[float])
    asked_at: list[float] = field(default_factory=list[float])
    """When each of them was asked for, for the first time."""
    tries: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        clients = itertools.cycle([Client(port, timeout_s=10) for port in self.ports])
        body = {"session_id": self.session_id}
        await next(clients).insist("POST", "/v1/sessions", body, key=f"create-{self.session_id}", limit_s=90)
        while not stop.is_set():
            await self.append(next(clients))
            await asyncio.sleep(self.pause_s)

    async def append(self, client: Client) -> None:
        number, asked_at = len(self.acknowledged) + 1, time.monotonic()
        event = {"type": KIND, "data": {"n": number, "padding": "x" * self.padding}}
        path = f"/v1/sessions/{self.session_id}/events"
        try:
            answer, tries = await client.insist("POST", path, event, key=f"{self.session_id}-{number}", limit_s=90)
        except TimeoutError as error:
            raise Breach(str(error)) from None
        if answer.status != 201:
            raise Breach(f"{path}, event {number}, was answered {answer}")
        told = answer.json()
        self.acknowledged[number] = told["last_seq"], told["durability"]
        self.answered_at.append(time.monotonic())
        self.asked_at.append(asked_at)
        self.tries += tries

    def lost(self, events: Sequence[dict[str, Any]]) -> list[int]:
        """The numbers that were acknowledged and do not stand where the answer said."""
        stored = {event["seq"]: event["data"]["n"] for event in events if event["type"] == KIND}
        return [number for number, (seq, _) in self.acknowledged.items() if stored.get(seq) != number]


class Load:
    """Writers at work while something breaks."""

    def __init__(
        self, ports: Sequence[int], count: int, prefix: str, *, padding: int = 0, pause_s: float = 0.0
    ) -> None:
        self.ports = list(ports)
        self.writers = [Writer(f"{prefix}-{n}", self.ports, padding, pause_s) for n in range(count)]
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(writer.run(self._stop)) for writer in self.writers]
        await self.flowing()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        try:
            if kind is None:
                await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def acknowledged(self) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers)

    async def flowing(self, limit_s: float = 60.0) -> float:
        """Wait until each writer has heard another acknowledgement; how long that took. Raises `Breach` if one of them
        does not."""
        began, before = time.monotonic(), [len(writer.acknowledged) for writer in self.writers]
        while any(len(one.acknowledged) <= number for one, number in zip(self.writers, before, strict=True)):
            for task in self._tasks:
                if task.done() and (error := task.exception()):
                    raise error
            if time.monotonic() - began > limit_s:
                raise Breach(f"a writer heard no acknowledgement within {limit_s:.0f} s")
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    def claimed(self, durability: str, begin: float, end: float) -> list[str]:
        """What was asked for and acknowledged at this durability between two moments."""
        found = list[str]()
        for writer in self.writers:
            times = zip(writer.acknowledged.items(), writer.asked_at, writer.answered_at, strict=True)
            found += [
                f"{writer.session_id} event {number}"
                for (number, (_, reached)), asked, answered in times
                if reached == durability and begin < asked and answered < end
            ]
        return found

    async def claims_no_replica(self, run: Run, replicas: Sequence[Engine]) -> None:
        """While every replica hangs, nothing may be acknowledged at `replicated`."""
        for replica in replicas:
            replica.freeze()
        begin = time.monotonic()
        await asyncio.gather(self.flowing(), asyncio.sleep(1.0))
        end = time.monotonic()
        for replica in replicas:
            replica.thaw()
        claimed = self.claimed("replicated", begin, end)
        run.check(not claimed, f"acknowledged at `replicated` while every replica hung: {claimed[:5]}")

    def longest_stall(self) -> float:
        """The longest time in which one of the writers heard no acknowledgement, in seconds."""
        pairs = (itertools.pairwise(writer.answered_at) for writer in self.writers)
        return max((later - earlier for pair in pairs for earlier, later in pair), default=0.0)

    async def check(self, run: Run, durability: str, server: Server) -> None:
        """Compare with what is stored: nothing acknowledged at this durability is lost, nothing stands twice, no seq is
        missing, every chain of hashes holds; and `layby verify` tells of losses (its exit code is 3) where, and only
        where, something that was acknowledged at less is lost."""
        compared = less = 0
        async with Client(self.ports[0]) as client:
            for writer in self.writers:
                events = await page_through(client, writer.session_id)
                numbers = [event["data"]["n"] for event in events if event["type"] == KIND]
                run.check(
                    [event["seq"] for event in events] == list(range(1, len(events) + 1)),
                    f"{writer.session_id}: offsets are not dense",
                )
                run.check(
                    numbers == sorted(set(numbers)), f"{writer.session_id}: doubled or out of order: {numbers[:50]}"
                )
                told = {n for n, (_, what) in writer.acknowledged.items() if what == durability}
                lost = writer.lost(events)
                run.check(told.isdisjoint(lost), f"{writer.session_id} lost what was {durability}: {lost[:20]}")
                compared += len(told)
                less += len(lost)
        await self._losses_are_told(run, server, less)
        run.figure("acknowledged", self.acknowledged)
        run.figure(f"of them at {durability}, all there", compared)
        run.figure("of the others, with no replica in step, lost and named by layby verify", less)

    @staticmethod
    async def _losses_are_told(run: Run, server: Server, lost: int) -> None:
        verified = await asyncio.to_thread(server.layby, "verify")
        said = f"{verified.stdout[-1_500:]}{verified.stderr[-500:]}"
        run.check(
            verified.returncode == (3 if lost else 0),
            f"layby verify, {lost} lost that were acknowledged at less: {said}",
        )


@dataclass
class Follower:
    """Follows a session over one server, and reconnects from its last seq whenever it is cut."""

    session_id: str
    port: int
    pieces: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    """What each connection showed."""

    @property
    def position(self) -> int:
        """The seq that it has seen."""
        return max((piece[-1]["seq"] for piece in self.pieces if piece), default=0)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.IncompleteReadError):
                await self._follow()
            await asyncio.sleep(random.uniform(0.02, 0.1))

    async def _follow(self) -> None:
        path = f"/v1/sessions/{self.session_id}/stream?from={self.position + 1}"
        piece = list[dict[str, Any]]()
        self.pieces.append(piece)
        async with opened(self.port, path, limit_s=TIMEOUT_S) as (head, reader):
            if head.status != 200:
                return
            async for lines in stream_lines(reader):
                piece += [json.loads(line) for line in lines if line and not line.startswith(b'{"end"')]

    def check(self, run: Run, stored: Sequence[dict[str, Any]], kept: Set[int] = frozenset()) -> int:
        """What it was shown is the log, without a gap or a doubling. Where a failover took events away that the tail
        had shown, they were not among those `kept`, by their seqs, and nothing of what took their place came over the
        same connection. Returns how many were shown and taken away."""
        shown = [event["seq"] for piece in self.pieces for event in piece]
        what = f"a tail of {self.session_id} saw"
        run.check(shown == list(range(1, len(shown) + 1)), f"{what} {shown[-50:]}, which is not dense")
        return sum(self._taken_away(run, piece, stored, kept) for piece in self.pieces if piece)

    def _taken_away(
        self, run: Run, piece: Sequence[dict[str, Any]], stored: Sequence[dict[str, Any]], kept: Set[int]
    ) -> int:
        begin = piece[0]["seq"] - 1
        there = [event == other for event, other in itertools.zip_longest(piece, stored[begin : begin + len(piece)])]
        common = there.index(False) if False in there else len(there)
        lost = [event["seq"] for event in piece[common:]]
        what = f"a tail of {self.session_id} was shown {piece[common:][:1]}"
        run.check(
            True not in there[common:], f"{what}, which is not stored, and later events that are, on one connection"
        )
        run.check(not kept & set(lost), f"{what}, which was acknowledged at `replicated`, and is not stored")
        return len(lost)
