"""Whether the read models are a fold of the streams: as they are stored, and as they are told."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from projections.projector.rebuild import Rebuild
from proofs.engines import Engine
from proofs.model.drivers import Driver
from proofs.model.looking import Looker
from proofs.model.plan import Differs
from proofs.model.world import World
from proofs.projections.logs import Stored
from proofs.proof import Run
from proofs.stores import offline

SOON_S = 0.05
"""Longer than the short deadlines of the writers."""


class Compared:
    """Counts what was compared, for the table."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.sessions = self.keys = self.answers = 0

    def whole(self, engine: Engine, driver: Driver, what: str) -> None:
        """Everything that is told equals the reference fold of the streams; everything that is stored equals what a
        rebuild makes of them, byte for byte."""
        time.sleep(SOON_S)
        for path in ("/v1/sessions", "/v1/calls"):  # what is due takes effect, before the streams are read
            driver.request("GET", path, b"", {})
        stored = Stored(engine.client)
        world = World(stored.sessions())
        self._told(world, driver, what)
        before = stored.models()
        asyncio.run(rebuilt(engine.url))
        self._equal(before, stored.models(), what)
        self.sessions += len(world.sessions)
        self.keys += len(before)

    def _told(self, world: World, driver: Driver, what: str) -> None:
        looker = Looker(driver, world, limit=70)
        try:
            looker.all_lists()  # first: this is what brings models up to date that are behind
            for session in world.sessions.values():
                looker.now(session)
        except Differs as differs:
            self._run.check(False, f"{what}: an answer is no fold of the streams: {str(differs)[:3000]}")
        self.answers += looker.reads

    def _equal(self, found: dict[str, Any], known: dict[str, Any], what: str) -> None:
        for key in sorted(found.keys() | known.keys()):
            if found.get(key) != known.get(key):
                one, other = str(found.get(key))[:1500], str(known.get(key))[:1500]
                self._run.check(
                    False, f"{what}: {key} is stored as\n  {one}\nand a rebuild makes of the streams\n  {other}"
                )


async def rebuilt(url: str) -> None:
    """Models anew, from nothing, in generations of their own."""
    async with offline(url) as (client, store):
        await Rebuild(client, store.keys).all()
