"""Proofs that can fail: each knows faults that it must catch, and each of these can still be made."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from proofs import suites
from proofs.__main__ import main
from proofs.catalogue import NAMES, load
from proofs.proof import Mutation, Proof
from tests.architecture.tree import ROOT, first_cells, text

MODULES = {path.stem for path in (ROOT / "proofs").glob("*.py")} | {
    path.parent.name for path in ROOT.glob("proofs/*/__init__.py")
}
MUTATIONS = [(load(name), mutation) for name in NAMES if name in MODULES for mutation in load(name).mutations]


@pytest.mark.parametrize("name", NAMES)
def test_each_proof_makes_a_promise_and_knows_faults_that_it_catches(name: str) -> None:
    proof = load(name)
    assert proof.promise.endswith(".")
    assert proof.mutations
    assert len({one.name for one in proof.mutations}) == len(proof.mutations)


@pytest.mark.parametrize(("proof", "mutation"), MUTATIONS, ids=[f"{p.name}-{m.name}" for p, m in MUTATIONS])
def test_each_fault_can_still_be_put_in(proof: Proof, mutation: Mutation, tmp_path: Path) -> None:
    """It changes Layby, not the proof; what it changes is still Python."""
    for path in {patch.path for patch in mutation.patches}:
        assert path.split("/")[0] in ("eventstore", "projections", "api", "cli")
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    for patch in mutation.patches:
        patch.apply(tmp_path)
        if patch.path.endswith(".py"):
            compile((tmp_path / patch.path).read_text(), patch.path, "exec")


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["doors", "--mutation", "nonsense"], ["--mutation", "any-scope-opens"]]
)
def test_a_name_that_nothing_has_does_not_pass_for_a_proof(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["proofs", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_each_proof_is_named_where_the_promises_are() -> None:
    guarantees = text(Path("docs/guarantees.md"))
    assert [name for name in NAMES if f"`{name}`" not in guarantees] == []


def test_each_module_of_the_proofs_is_in_their_readme() -> None:
    readme = text(Path("proofs/README.md"))
    shared = {stem for stem in MODULES - set(NAMES) if not stem.startswith("__")}
    assert [stem for stem in sorted(shared) if f"`{stem}.py`" not in readme and f"`{stem}/`" not in readme] == []
    assert first_cells(readme)
    assert not re.search(r"TODO", readme)


def test_the_proofs_leave_out_of_the_conformance_suite_what_ci_leaves_out() -> None:
    assert f'--deselect "{suites.LEFT_OUT}"' in text(Path(".ci/run"))
