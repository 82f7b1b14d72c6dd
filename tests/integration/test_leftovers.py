"""Nothing that a proof started outlives it, even when the one who runs the proofs is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proofs import leftovers

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")

ROOT = Path(__file__).parents[2]
A_PROOF = """
import os, subprocess, sys
from proofs import leftovers
leftovers.end_with(os.getppid())
server = subprocess.Popen(["sleep", "120"], start_new_session=True)
print(server.pid, flush=True)
server.wait()
"""
A_RUNNER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {A_PROOF!r}], start_new_session=True)"


def _started(program: str, mark: str) -> tuple[subprocess.Popen[str], int]:
    environment = os.environ | {leftovers.MARK: mark, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, int(process.stdout.readline())


def _lives(pid: int) -> bool:
    """Neither gone nor a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _gone(pid: int) -> bool:
    give_up = time.monotonic() + 30
    while _lives(pid) and time.monotonic() < give_up:
        time.sleep(0.05)
    return not _lives(pid)


def test_what_a_killed_runner_leaves_ends_itself(tmp_path: Path) -> None:
    runner, server = _started(A_RUNNER, str(tmp_path))
    try:
        assert _lives(server)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        assert _gone(server)
    finally:
        leftovers.end(str(tmp_path))


def test_only_what_belongs_to_the_run_is_ended(tmp_path: Path) -> None:
    own, a_server = _started(A_PROOF, str(tmp_path / "own"))
    other, its_server = _started(A_PROOF, str(tmp_path / "other"))
    try:
        leftovers.end(str(tmp_path / "own"))
        own.wait(timeout=30)
        assert _gone(a_server)
        assert _lives(other.pid)
        assert _lives(its_server)
    finally:
        leftovers.end(str(tmp_path / "other"))
        other.wait(timeout=30)
