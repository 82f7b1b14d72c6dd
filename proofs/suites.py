"""Runs tests against a tree: some of ours, or the conformance suite where it lies beside the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from proofs import builds
from proofs.proof import Run

LEFT_OUT = "test_keys.py::test_without_a_key_nothing_opens"
"""It sends the header `Authorization: Bearer ` (with nothing behind it), which its own HTTP client refuses to send, in
every version. `tests/http/test_keys.py` sends the same bytes over a socket. `.ci/run` leaves it out too."""
_LIMIT_S = 1500


def conformance(
    run: Run, about: str, root: Path, *, without: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> str:
    """As `tests`, for the conformance suite `without` some of its files; empty where there is none."""
    suite = Path(os.environ.get("CONFORMANCE_SUITE", builds.ROOT.parent / "shared" / "conformance"))
    if not suite.is_dir():
        return ""
    chosen = ["-c", "/dev/null", "--rootdir", str(suite), str(suite), "--deselect", LEFT_OUT]
    chosen += [f"--ignore={suite / name}" for name in without]
    return tests(run, f"{about}, conformance", root, chosen, settings=settings)


def tests(
    run: Run, about: str, root: Path, arguments: Sequence[str], *, settings: Mapping[str, str] | None = None
) -> str:
    """pytest's line of summary. Raises `Breach` with the failures."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=300", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "LAYBY_CMD": f"{sys.executable} -m cli serve",
        **(settings or {}),
    }
    run.progress(f"{about}: tests are under way")
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    last = (done.stdout.strip().splitlines() or ["no test ran"])[-1]
    run.check(done.returncode == 0, f"{about}: {last}\n{done.stdout[-3000:]}{done.stderr[-500:]}")
    return re.sub(r"[=\s]+in .*", "", last).strip("= ")
