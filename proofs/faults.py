"""Named points at which a process dies. They stand in no product file: a proof patches them into a copy of the tree.

A plan is a small file, named by an environment variable: `name point pass victims`. At that pass of that point, counted
from this plan on, each victim gets SIGKILL, in this order; `self` is the process that got there, any other is a pid.
The plan is gone then, so that whoever is started next lives. Standard library only, and no import of Layby: this runs
inside of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PLAN = "LAYBY_PROOF_FAULT"
_passes: Counter[str] = Counter()
"""Of each plan, by its name: a process may outlive many, and a file system gives one file's number to the next."""


def plan(file: Path, point: str, at_pass: int, victims: list[str]) -> None:
    """What is to happen next; it counts from now on."""
    new = file.with_suffix(".new")
    new.write_text(f"{uuid.uuid4()} {point} {at_pass} {','.join(victims)}")
    new.rename(file)


def reach(point: str) -> None:
    """This process is at the point."""
    file = os.environ.get(PLAN)
    if not file:
        return
    try:
        name, planned, at_pass, victims = Path(file).read_text().split()
    except (OSError, ValueError):
        return
    if planned == point:
        _passes[name] += 1
        if _passes[name] == int(at_pass):
            _strike(file, victims.split(","))


def _strike(file: str, victims: list[str]) -> None:
    try:
        Path(file).unlink()
    except FileNotFoundError:  # another process was here first
        return
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(os.getpid() if victim == "self" else int(victim), signal.SIGKILL)


def watch_sending(point: str, *shas: str) -> None:
    """From now on the point is reached whenever a script with one of these digests has left, before its answer."""
    from eventstore.redis_client.connections import TrackedConnection  # where it is used anyway

    send, wanted = TrackedConnection.send_packed_command, [sha.encode() for sha in shas]

    async def send_and_reach(
        self: TrackedConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        await send(self, command, check_health)
        if isinstance(command, bytes) and any(sha in command for sha in wanted):
            reach(point)

    TrackedConnection.send_packed_command = send_and_reach
