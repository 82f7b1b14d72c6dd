"""Named points at which a process dies. They stand in no product file: a proof patches them into a copy of the tree.

A plan is a small file, named by an environment variable: `point pass victims`. At that pass of that point each victim
gets SIGKILL, in this order; `self` is the process that got there, any other is a pid. The plan is gone then, so that
whoever is started next lives. Standard library only, and no import of Layby: this runs inside of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

PLAN = "LAYBY_PROOF_FAULT"
_passes: Counter[tuple[int, str]] = Counter()


def plan(file: Path, point: str, at_pass: int, victims: list[str]) -> None:
    """What is to happen next; it counts from now on."""
    new = file.with_suffix(".new")
    new.write_text(f"{point} {at_pass} {','.join(victims)}")
    new.rename(file)


def reach(point: str) -> None:
    """This process is at the point."""
    name = os.environ.get(PLAN)
    if not name:
        return
    try:
        with Path(name).open() as file:
            planned, at_pass, victims = file.read().split()
            number = os.fstat(file.fileno()).st_ino
    except (OSError, ValueError):
        return
    if planned == point:
        _passes[number, point] += 1
        if _passes[number, point] == int(at_pass):
            _strike(name, victims.split(","))


def _strike(name: str, victims: list[str]) -> None:
    try:
        Path(name).unlink()
    except FileNotFoundError:  # another process was here first
        return
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(os.getpid() if victim == "self" else int(victim), signal.SIGKILL)


def watch_sending(point: str, *shas: str) -> None:
    """From now on the point is reached whenever a script with one of these digests has left, before its answer."""
    from redis.asyncio.connection import AbstractConnection  # where it is used anyway

    send = AbstractConnection.send_packed_command

    async def send_and_reach(self: AbstractConnection, command: Any, *arguments: Any, **options: Any) -> None:
        await send(self, command, *arguments, **options)
        parts = (
            [command] if isinstance(command, bytes) else [bytes(part) for part in command if not isinstance(part, str)]
        )
        if any(sha.encode() in part for sha in shas for part in parts):
            reach(point)

    AbstractConnection.send_packed_command = send_and_reach
