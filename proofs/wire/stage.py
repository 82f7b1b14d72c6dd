"""Two servers on one engine, one of them behind a bad line, and clients that come to the other over bad lines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import TypeVar

from proofs.audit import Audit
from proofs.client import Client
from proofs.engines import Engine
from proofs.proof import Run
from proofs.proxy import FAULTS, SILENT_AFTER, SILENT_BEFORE, Fault, Proxy, is_request
from proofs.servers import Server
from proofs.wire import lines, tails
from proofs.wire.cases import Cases
from proofs.wire.kinds import DELETION, KEYLESS, KINDS, Kind
from proofs.workload import Journal, Writer

PARTITIONS = 4
AT_ONCE = 8
IMPATIENT_S = 1.5
"""So long a client waits for an answer before it tries again."""
SILENT = (SILENT_BEFORE, SILENT_AFTER)
NOISY = tuple(fault for fault in FAULTS if fault not in SILENT)
OFTEN = 0.08
"""How many requests meet a fault where faults come at random."""
Case = Callable[[Kind, Fault, Client, str], Awaitable[None]]
_T = TypeVar("_T")


class Wire:
    """What is proved, part by part."""

    def __init__(self, run: Run, engine: Engine, between: Proxy, near: Server, far: Server) -> None:
        """`near` talks to the engine directly, `far` over the proxy `between`."""
        self._run, self._engine, self._between, self._near, self._far = run, engine, between, near, far
        self._random = random.Random(run.seed)
        self._cases = Cases(run, near.client)
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def prove(self) -> None:
        """The parts that are asked for."""
        part = self._run.option("part")
        if part in ("", "client", "engine"):
            await self._together(partial(self._cases.learn, kind) for kind in self._kinds(KINDS))
        if part in ("", "client"):
            await self._to_the_server()
        if part in ("", "engine"):
            await self._to_the_engine()
        await self._cases.settle()
        if not part:
            await self._no_session_too_many()
        if part in ("", "tails"):
            await tails.prove(self._run, self._near.url, self._near.client(), self._run.pick(quick=25, full=300))
        if part in ("", "lines"):
            count = self._run.pick(quick=50, full=2_000, mutated=400)
            await lines.prove(self._run, self._near.url, self._near.client(), count)
        if not part:
            await self._at_random(self._run.pick(quick=1.0, full=40.0))
        self._figures()

    async def _to_the_server(self) -> None:
        """Each client over a line of its own."""
        cases = self._some(list(product(self._kinds(KINDS), self._faults(FAULTS))), quick=40)
        keyless = self._some(list(product(self._kinds(KEYLESS), self._faults(FAULTS))), quick=15)
        deletions = self._some(self._faults(FAULTS), quick=3)
        work = [partial(self._over_a_line, self._cases.with_key, kind, fault) for kind, fault in cases]
        work += [partial(self._over_a_line, self._cases.without_key, kind, fault) for kind, fault in keyless]
        work += [partial(self._over_a_line, self._cases.deletion, DELETION, fault) for fault in deletions]
        await self._together(work)

    async def _over_a_line(self, case: Case, kind: Kind, fault: Fault) -> None:
        async with Proxy(self._near.url, concerns=is_request) as line:
            line.faults.append(fault)
            await case(kind, fault, Client(line.port, timeout_s=IMPATIENT_S), "client")
            self._run.check(line.befell > 0, f"{kind.name}: {fault.name} never came to pass")

    async def _to_the_engine(self) -> None:
        """All at once over the one line of their server; the fault befalls some of the pipelines with commits."""
        faults = self._faults(NOISY)
        silent = self._some(self._faults(SILENT), quick=1)
        for fault in [*faults, *silent]:
            self._run.progress(f"server to engine: {fault.name}")
            self._befall(fault)
            kinds, keyless = self._some(self._kinds(KINDS), quick=6), self._some(self._kinds(KEYLESS), quick=3)
            work = [partial(self._to_far, self._cases.with_key, kind, fault) for kind in kinds]
            work += [partial(self._to_far, self._cases.without_key, kind, fault) for kind in keyless]
            count = self._run.pick(quick=1, full=4, mutated=12)
            work += [partial(self._to_far, self._cases.deletion, DELETION, fault) for _ in range(count)]
            await self._together(work)
            self._run.check(self._between.befell > 0, f"{fault.name} never came to pass")
            self._calm()

    def _befall(self, fault: Fault) -> None:
        """Silence is waited out, which takes long: it befalls two pipelines. Any other fault befalls the first one, and
        every other one after it: many commits may share few pipelines, so chance alone could spare them all."""
        self._between.befell = 0
        if fault in SILENT:
            self._between.faults.extend([fault] * 2)
        else:
            self._between.faults.append(fault)
            self._between.choose = lambda: fault if self._random.random() < 0.5 else None

    def _calm(self) -> None:
        self._between.choose = lambda: None
        self._between.cut()

    async def _to_far(self, case: Case, kind: Kind, fault: Fault) -> None:
        await case(kind, fault, self._far.client(), "engine")

    async def _no_session_too_many(self) -> None:
        """Requests that make a session made one."""
        async with self._near.client() as client:
            page = (await client.request("GET", "/v1/sessions?limit=1000")).json()
        found = {row["session_id"] for row in page["sessions"]}
        if page["next_cursor"] is None:
            more, lost = found - self._cases.sessions, self._cases.sessions - found
            self._run.check(not more and not lost, f"sessions that nobody was told of: {more}; missing: {lost}")

    async def _at_random(self, seconds: float) -> None:
        """Whole sessions, with faults on both ways at once."""
        self._between.choose = lambda: self._now_and_then(self._run.pick(quick=NOISY, full=FAULTS))
        over, loop = asyncio.get_running_loop().time() + seconds, asyncio.get_running_loop()
        async with Proxy(self._far.url, concerns=is_request) as line:
            line.choose = lambda: self._now_and_then(FAULTS)
            writers = [
                Writer(f"wire-{number}", Client(line.port, timeout_s=IMPATIENT_S), self._run.seed, limit_s=120)
                for number in range(AT_ONCE)
            ]
            written = await asyncio.gather(*(writer.run(lambda: loop.time() > over) for writer in writers))
            befell = line.befell + self._between.befell
        self._calm()
        await self._judge([journal for journals in written for journal in journals])
        self._run.figure("requests at random acknowledged", sum(writer.acknowledged for writer in writers))
        self._run.figure("faults at random", befell)

    def _now_and_then(self, faults: Sequence[Fault]) -> Fault | None:
        return self._random.choice(faults) if self._random.random() < OFTEN else None

    async def _judge(self, journals: list[Journal]) -> None:
        async with self._near.client() as client:
            await Audit(self._run.check, client, self._engine.url, PARTITIONS).all(journals)

    async def _together(self, work: Iterable[Callable[[], Awaitable[None]]]) -> None:
        async def one(case: Callable[[], Awaitable[None]]) -> None:
            async with self._slots:
                await case()

        async with asyncio.TaskGroup() as group:
            for case in work:
                group.create_task(one(case))

    def _kinds(self, kinds: Sequence[Kind]) -> list[Kind]:
        """Those that a mutation asks for, or all."""
        wanted = self._run.option("kind")
        return [kind for kind in kinds if wanted in ("", kind.name)]

    def _faults(self, faults: Sequence[Fault]) -> list[Fault]:
        wanted = self._run.option("fault")
        return [fault for fault in faults if wanted in ("", fault.name)]

    def _some(self, things: Sequence[_T], *, quick: int) -> list[_T]:
        """All of them, or so many in a quick run."""
        most = self._run.pick(quick=quick, full=len(things))
        return self._random.sample(things, min(most, len(things)))

    def _figures(self) -> None:
        cases = self._cases
        self._run.figure("cases with a key", cases.keyed)
        self._run.figure("repeated by the client", cases.repeated)
        self._run.figure("cases without", cases.keyless)
        self._run.figure("deletions", cases.deletions)
