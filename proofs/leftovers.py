"""Ends what a proof started and did not end, servers and engines, whatever session or group they are in; and deletes
what it wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

MARK = "LAYBY_PROOF_RUN"
"""An environment variable that every process of a run inherits: the folder of the run."""
LIMIT_S = 10.0


def end(folder: Path) -> None:
    """SIGKILL to every other process of this user that belongs to the run with this folder (where there is a /proc)."""
    give_up, own = time.monotonic() + LIMIT_S, os.getpid()
    while found := [pid for pid in _belonging(folder) if pid != own]:  # one look misses what is started meanwhile
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up:
            return
        time.sleep(0.01)


@contextlib.contextmanager
def ending_with_parent(folder: Path) -> Generator[None]:
    """When this process loses its parent (killed, so that it could not clean up), it ends, and all of its run."""
    parent, over = os.getppid(), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if os.getppid() != parent:
                end(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(1)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:  # not before it has looked once more
        over.set() if os.getppid() == parent else watching.join()


def _belonging(folder: Path) -> Iterator[int]:
    """By the mark; or, since an engine writes its title over its environment, by where it works."""
    mark, inside = f"{MARK}={folder}".encode(), f"{folder}/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            marked = mark in (process / "environ").read_bytes().split(b"\0")
            if marked or f"{(process / 'cwd').readlink()}/".startswith(inside):
                yield int(process.name)
