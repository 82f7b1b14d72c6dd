"""Copies of the tree, with a fault in them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from proofs.proof import Patch

ROOT = Path(__file__).parents[1]
PACKAGES = ("eventstore", "projections", "api", "cli", "proofs", "benchmarks", "tests", "examples", "docs")
"""What a proof imports, or starts, and what its tests read; the dependencies are those of the interpreter that runs."""


@contextlib.contextmanager
def patched(patches: Sequence[Patch], within: Path | None = None) -> Generator[Path]:
    """The root of a copy with these changes, for as long as the block lasts. Raises `LookupError`."""
    with tempfile.TemporaryDirectory(prefix="layby-build-", dir=within) as folder:
        root = copy(Path(folder))
        for patch in patches:
            patch.apply(root)
        yield root


def copy(target: Path) -> Path:
    """The tree as it is now, for a build that is changed further. Returns its root."""
    made = shutil.ignore_patterns("__pycache__", "results", "node_modules")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, target / name, ignore=made)
    shutil.copy(ROOT / "pyproject.toml", target)
    return target
