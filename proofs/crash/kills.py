"""Kills under load, one after another, and what must be true after each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs.audit import Audit
from proofs.crash.points import POINTS, Point
from proofs.crash.stage import PARTITIONS, Stage
from proofs.proof import Run
from proofs.workload import SOON_MS, Journal, Writer

RANDOM = ("server", "engine", "both", "hung", "away")
BEFORE = 5
"""So many requests of each writer are acknowledged before a kill, at least."""
AFTERWARDS = 2
"""So many requests of each writer are acknowledged after a kill, before it is judged."""
REACH_LIMIT_S = 60.0
HELD = "another rebuild is under way"
"""What a rebuild says that finds the lock of another one."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: at a point, or, without one, at a moment that is chosen at random."""

    private: bool
    victims: str
    point: Point | None = None

    def __str__(self) -> str:
        where = f"at {self.point.name}" if self.point else "at random"
        return f"{self.victims}, {'private' if self.private else 'separate'} engine, {where}"


def every_point() -> list[Kill]:
    """Each point with each victim that it can have."""
    return [kill for point in POINTS for kill in _of_point(point)]


def _of_point(point: Point) -> Iterator[Kill]:
    match point.by:
        case "load":
            yield from (Kill(private=False, victims=victims, point=point) for victims in ("server", "engine", "both"))
        case "rebuild":
            yield Kill(private=False, victims="rebuild", point=point)
            yield Kill(private=True, victims="both", point=point)
        case _:
            yield Kill(private=True, victims="server", point=point)


def at_random(count: int, choose: random.Random) -> list[Kill]:
    """Victims in turn, engines of both kinds."""
    return [Kill(choose.random() < 0.5, RANDOM[number % len(RANDOM)]) for number in range(count)]


class Kills:
    """Kills on one stage, whose data stay from kill to kill."""

    def __init__(self, run: Run, stage: Stage, writers: int) -> None:
        self._run, self._stage, self._writers = run, stage, writers
        self._random = random.Random(f"{run.seed} {stage.private}")
        self._round = 0
        self.journals: list[Journal] = []

    async def one(self, kill: Kill) -> None:
        """Load, the kill, the return, and the judgement."""
        self._round += 1
        load = Load(self._stage, f"{'p' if kill.private else 's'}{self._round}", self._writers, self._run.seed)
        if kill.point and kill.point.by == "start":
            await self._while_starting(kill, load)
        else:
            load.begin()
            await self._strike(kill, load)
        await self._stage.start()
        journals = await load.end()
        old = self._random.sample(self.journals, min(3, len(self.journals)))
        self.journals += journals
        await self.judge([*journals, *old])

    async def _while_starting(self, kill: Kill, load: Load) -> None:
        """Kill it under load, then once more while it comes back."""
        load.begin()
        await load.acknowledged(BEFORE)
        assert kill.point
        self._stage.arm(kill.point.name, 1, "server")
        await self._stage.kill("server")
        try:
            await asyncio.to_thread(self._stage.server.start)
        except RuntimeError:
            self._reached(await self._stage.struck(0), kill)
        else:
            raise AssertionError(f"{kill}: the server came up")

    async def _strike(self, kill: Kill, load: Load) -> None:
        await load.acknowledged(BEFORE)
        moment = self._random.uniform(0.1, 0.6)
        if not kill.point:
            await asyncio.sleep(moment)
            await self._at_random(kill.victims)
            return
        if kill.point.by != "load":
            await asyncio.sleep(moment)
        self._stage.arm(kill.point.name, self._random.randint(1, 3) if kill.point.by == "load" else 1, kill.victims)
        if kill.point.by == "rebuild":
            await self._rebuild(kill, load)
        if kill.point.by == "restart":
            await self._stage.kill("engine")
        struck = await self._stage.struck(REACH_LIMIT_S)
        await load.check()
        self._reached(struck, kill)
        await self._bury(kill)

    async def _rebuild(self, kill: Kill, load: Load) -> None:
        """Rebuild until what was armed has happened: one that was killed a moment ago keeps its lock for a while, and
        the next one is told so."""
        give_up = asyncio.get_running_loop().time() + REACH_LIMIT_S
        while self._stage.armed:
            done = await asyncio.to_thread(self._stage.server.layby, "rebuild")
            if not self._stage.armed:
                return
            await load.check()
            if HELD not in done.stderr or asyncio.get_running_loop().time() > give_up:
                raise AssertionError(f"{kill}: nobody got there, and the rebuild said {done.stdout}{done.stderr}")
            await asyncio.sleep(0.5)

    async def _at_random(self, victims: str) -> None:
        """`hung`: both, the engine silent for a moment before; `away`: the server, until much is overdue."""
        silent = self._random.uniform(0.02, 0.1) if victims == "hung" else 0.0
        await self._stage.kill({"hung": "both", "away": "server"}.get(victims, victims), silent)
        if victims == "away":
            await asyncio.sleep(max(SOON_MS) / 1000)

    async def _bury(self, kill: Kill) -> None:
        """Wait for the end of what was struck, so that nothing is taken for alive."""
        server, engine = self._stage.server.process, self._stage.engine
        assert server
        if kill.victims != "engine" and kill.point and kill.point.by != "rebuild":
            await asyncio.to_thread(server.wait, 10)
        if kill.victims in ("engine", "both") and engine and engine.process:
            await asyncio.to_thread(engine.process.wait, 10)

    @staticmethod
    def _reached(struck: bool, kill: Kill) -> None:
        if not struck:
            raise AssertionError(f"{kill}: nobody got there in {REACH_LIMIT_S:.0f} s")

    async def judge(self, journals: list[Journal]) -> None:
        limit = self._run.pick(quick=30.0, full=30.0, mutated=4.0)
        async with self._stage.server.client() as client:
            await Audit(self._run.check, client, self._stage.url, PARTITIONS, expiry_limit_s=limit).all(journals)


class Load:
    """Writers at work. They go on over the kill."""

    def __init__(self, stage: Stage, name: str, writers: int, seed: int) -> None:
        self._over = False
        self._writers = [Writer(f"{name}-{n}", stage.server.client(), seed) for n in range(writers)]
        self._tasks: list[asyncio.Task[list[Journal]]] = []

    def begin(self) -> None:
        self._tasks = [asyncio.create_task(writer.run(lambda: self._over)) for writer in self._writers]

    @property
    def alive(self) -> bool:
        """Whether none of them has stopped."""
        return not any(task.done() for task in self._tasks)

    async def check(self) -> None:
        """Raises what went wrong, if one of them has stopped."""
        if not self.alive:
            await self.end()

    async def acknowledged(self, more: int) -> None:
        """Wait until each has so many more requests acknowledged, or has stopped."""
        goals = [writer.acknowledged + more for writer in self._writers]
        while self.alive and any(w.acknowledged < goal for w, goal in zip(self._writers, goals, strict=True)):
            await asyncio.sleep(0.005)

    async def end(self) -> list[Journal]:
        """Let each have some more acknowledged, then end. Raises the `Breach` of a writer that was told wrong."""
        await self.acknowledged(AFTERWARDS)
        self._over = True
        try:
            return [journal for written in await asyncio.gather(*self._tasks) for journal in written]
        finally:
            for task in self._tasks:
                task.cancel()


def stage(run: Run, root: Path, *, private: bool) -> Stage:
    return Stage(run.folder / ("private" if private else "separate"), root, private=private)
