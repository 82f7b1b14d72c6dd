"""The named points of the crash proof: each can still be put in, each is told by its name, and a plan strikes once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proofs import faults
from proofs.crash.kills import every_point
from proofs.crash.points import POINTS
from tests.architecture.tree import ROOT


def test_the_points_go_in_together(tmp_path: Path) -> None:
    for file in {point.file for point in POINTS}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for point in POINTS:
        point.patch.apply(tmp_path)
    for file in {point.file for point in POINTS}:
        compile((tmp_path / file).read_text(), file, "exec")


def test_each_point_has_a_name_of_its_own_and_is_planned() -> None:
    names = [point.name for point in POINTS]
    assert len(set(names)) == len(names)
    assert {kill.point.name for kill in every_point() if kill.point} == set(names)


def test_no_product_file_knows_of_them() -> None:
    for folder in ("eventstore", "projections", "api", "cli"):
        for file in (ROOT / folder).rglob("*.py"):
            assert "proofs" not in file.read_text(), file


def strike(plan: Path, passes: int) -> int:
    """The exit code of a process that reaches `here` so often."""
    code = f"from proofs import faults\nfor _ in range({passes}): faults.reach('there'), faults.reach('here')"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {faults.PLAN: str(plan)}, timeout=60, check=False
    ).returncode


@pytest.mark.parametrize(("at_pass", "passes", "code"), [(1, 1, -signal.SIGKILL), (3, 3, -signal.SIGKILL), (3, 2, 0)])
def test_a_plan_strikes_at_its_pass(tmp_path: Path, at_pass: int, passes: int, code: int) -> None:
    plan = tmp_path / "plan"
    faults.plan(plan, "here", at_pass, ["self"])
    assert strike(plan, passes) == code
    assert plan.exists() == (code == 0)


def test_whoever_comes_after_the_strike_lives(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    faults.plan(plan, "here", 1, ["self"])
    assert [strike(plan, 1), strike(plan, 1)] == [-signal.SIGKILL, 0]


def test_another_process_can_be_the_victim(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        faults.plan(plan, "here", 1, [str(other.pid)])
        assert strike(plan, 1) == 0
        assert other.wait(60) == -signal.SIGKILL


def test_each_plan_counts_its_own_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlives one plan meets the next, whose file may well have the same number."""
    plan = tmp_path / "plan"
    monkeypatch.setenv(faults.PLAN, str(plan))
    for at_pass in (3, 1, 2):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
            faults.plan(plan, "here", at_pass, [str(victim.pid)])
            for _ in range(at_pass):
                assert plan.exists()
                faults.reach("here")
            assert not plan.exists()
            assert victim.wait(60) == -signal.SIGKILL
