"""A server and its engine, to be killed and started again: the private engine, or one that outlives the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from proofs import faults
from proofs.engines import Engine
from proofs.servers import Server

PARTITIONS = 4


class Stage:
    def __init__(self, folder: Path, root: Path, *, private: bool) -> None:
        """`private`: the engine is the server's own, and ends with it."""
        self.private = private
        self.engine = None if private else Engine(folder / "engine")
        self.plan = folder / "plan"
        settings = {"partitions": str(PARTITIONS), faults.PLAN.removeprefix("LAYBY_").lower(): str(self.plan)}
        url = self.engine.url if self.engine else ""
        self.server = Server(folder / "server", redis_url=url, settings=settings, root=root)

    @property
    def url(self) -> str:
        """Of the engine, while it runs."""
        return self.engine.url if self.engine else self.server.engine_url

    @property
    def engine_pid(self) -> int:
        if not self.engine:
            return self.server.engine_pid
        assert self.engine.process
        return self.engine.process.pid

    async def start(self) -> None:
        """Start what does not run, and wait until the server is ready."""
        if self.engine and not self.engine.alive:
            await asyncio.to_thread(self.engine.start)
        if self.server_ended:
            await asyncio.to_thread(self.server.start)
        else:
            await asyncio.to_thread(self.server.wait_ready)

    @property
    def server_ended(self) -> bool:
        return self.server.process is None or self.server.process.poll() is not None

    def arm(self, point: str, at_pass: int, victims: str) -> None:
        """Somebody dies at this pass of a point: `engine`, `both`, or else who gets there."""
        engine = [str(self.engine_pid)] if victims in ("engine", "both") else []
        faults.plan(self.plan, point, at_pass, [*engine, *(["self"] if victims != "engine" else [])])

    @property
    def armed(self) -> bool:
        """What was armed has not happened."""
        return self.plan.exists()

    async def struck(self, limit_s: float) -> bool:
        """Wait until what was armed has happened; False if it did not."""
        give_up = asyncio.get_running_loop().time() + limit_s
        while self.armed:
            if asyncio.get_running_loop().time() > give_up:
                self.plan.unlink(missing_ok=True)
                return False
            await asyncio.sleep(0.01)
        return True

    async def kill(self, victims: str, silent_s: float = 0.0) -> None:
        """SIGKILL to `server`, `engine` or `both`: the engine first, and before that it is silent so long."""
        if victims != "server":
            await self._kill_engine(silent_s)
        if victims != "engine":
            await asyncio.to_thread(self.server.kill, "server")

    async def _kill_engine(self, silent_s: float) -> None:
        pid = self.engine_pid
        with contextlib.suppress(ProcessLookupError):
            if silent_s:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(silent_s)
            os.kill(pid, signal.SIGKILL)
        if self.engine:
            await asyncio.to_thread(self.engine.kill)

    def end(self) -> None:
        self.server.end()
        if self.engine:
            self.engine.close()
