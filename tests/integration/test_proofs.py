"""The proofs, at a size for every day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def prove(name: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"proofs.{name}", *options], capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_acknowledged_is_lost_when_server_engine_or_both_are_killed() -> None:
    output = prove("kills", "--kills", "3", "--seconds", "1")
    assert output.count("0 lost") == 3
    assert output.count("intact") == 3


def test_a_server_outlives_an_outage_of_its_engine() -> None:
    assert "by the same server process" in prove("outage", "--seconds", "3")
