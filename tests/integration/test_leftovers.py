"""Nothing that a proof started outlives it, even when the one who runs the proofs is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs import leftovers

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")

ROOT = Path(__file__).parents[2]
A_PROOF = """
import os, subprocess, sys
from pathlib import Path
from proofs import leftovers
folder = Path(os.environ[leftovers.MARK])
with leftovers.ending_with_parent(folder):
    server = subprocess.Popen(["sleep", "120"], start_new_session=True, cwd=folder, env={"PATH": os.environ["PATH"]})
    print(server.pid, flush=True)
    server.wait()
"""
A_RUNNER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {A_PROOF!r}], start_new_session=True)"


def _started(program: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    folder.mkdir(exist_ok=True)
    environment = os.environ | {leftovers.MARK: str(folder), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, int(process.stdout.readline())


def _lives(pid: int) -> bool:
    """Neither gone nor a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _gone(pid: int) -> bool:
    return _until(lambda: not _lives(pid))


def _until(condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + 30
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.05)
    return condition()


def test_what_a_killed_runner_leaves_ends_itself(tmp_path: Path) -> None:
    runner, server = _started(A_RUNNER, tmp_path)
    try:
        assert _lives(server)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        assert _gone(server)
        assert _until(lambda: not tmp_path.exists()), "what it wrote is left"
    finally:
        leftovers.end(tmp_path)


def test_only_what_belongs_to_the_run_is_ended(tmp_path: Path) -> None:
    own, a_server = _started(A_PROOF, tmp_path / "own")
    other, its_server = _started(A_PROOF, tmp_path / "other")
    try:
        leftovers.end(tmp_path / "own")
        own.wait(timeout=30)
        assert _gone(a_server)
        assert _lives(other.pid)
        assert _lives(its_server)
    finally:
        leftovers.end(tmp_path / "other")
        other.wait(timeout=30)
