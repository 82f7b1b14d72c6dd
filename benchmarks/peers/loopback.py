"""What the peers share: processes that cannot outlive the benchmark, and requests that prepare what is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

PATIENCE_S = 60.0
_JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def process(
    command: Sequence[str | Path], log: Path, *, piped: bool = False, user: str | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """A process for the length of the block. What it says goes to `log`; with `piped`, its standard output to a pipe.

    It ends with the thread that started it, where the system can promise that, so start it from the main thread.
    """
    with log.open("ab") as told:
        started = subprocess.Popen(
            [*_bound(), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else told,
            stderr=told,
            start_new_session=True,
            user=user,
        )
    try:
        yield started
    finally:
        _end(started)


def _bound() -> list[str]:
    """A prefix that becomes the command, under the same pid, and has it killed when its parent dies."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def _end(started: subprocess.Popen[bytes]) -> None:
    started.send_signal(signal.SIGTERM)
    try:
        started.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    if started.stdout:
        started.stdout.close()


def until(ready: Callable[[], bool], started: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process is ready; not being reached counts as not yet.

    Raises RuntimeError with the end of its log where it ends before, or takes more than a minute.
    """
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up and started.poll() is None:
        with contextlib.suppress(OSError):
            if ready():
                return
        time.sleep(0.02)
    raise RuntimeError(f"{started.args!r} did not become ready: {log.read_text(errors='replace')[-2000:]}")


def request(method: str, port: int, path: str, body: bytes | None = None) -> bytes:
    """Send JSON, if anything; gives the body of the answer. Raises OSError where there is none, or no success."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, _JSON, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.read()
