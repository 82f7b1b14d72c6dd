"""What other processes take meanwhile: cores and memory (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

SAMPLE_S = 0.05
_T = TypeVar("_T")


class Busy:
    """How much of one core each of some processes took, between two looks."""

    def __init__(self, **processes: int) -> None:
        """Names and pids; this process, the load, is added."""
        self._processes = {**processes, "load": os.getpid()}
        self._at, self._spent = time.monotonic(), self._all()

    def look(self) -> dict[str, float]:
        """Cores, since the last look."""
        since, before = self._at, self._spent
        self._at, self._spent = time.monotonic(), self._all()
        return {name: (spent - before[name]) / max(self._at - since, 1e-9) for name, spent in self._spent.items()}

    def _all(self) -> dict[str, float]:
        return {name: _cpu_seconds(pid) for name, pid in self._processes.items()}

    def __str__(self) -> str:
        """Looks, and tells it."""
        return ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.look().items())


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kb(pid: int) -> int:
    """The memory of a process that is in RAM."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0])


async def at_most_kb(pid: int, work: Awaitable[_T]) -> tuple[_T, int]:
    """What the work gives, and the most memory that the process had meanwhile."""
    most = resident_kb(pid)

    async def look() -> None:
        nonlocal most
        while True:
            await asyncio.sleep(SAMPLE_S)
            most = max(most, resident_kb(pid))

    looking = asyncio.create_task(look())
    try:
        return await work, most
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
