"""What the architecture tests look at: the tree as it is, and the documents about it."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYERS = ("eventstore.domain", "eventstore", "projections", "api", "cli")
"""From the inside out: each may import those before it, and itself."""
PACKAGES = ("eventstore", "projections", "api", "cli")


@cache
def files() -> list[Path]:
    """Every file that is, or is about to be, part of the project; relative to its root."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({Path(name) for name in done.stdout.split("\0") if name and (ROOT / name).is_file()})


def modules() -> list[Path]:
    """The Python files of the four packages that are not empty."""
    return [path for path in files() if path.parts[0] in PACKAGES and path.suffix == ".py" and text(path).strip()]


def scripts() -> list[Path]:
    """The Lua files."""
    return [path for path in files() if path.suffix == ".lua"]


def documents() -> list[Path]:
    """The Markdown files."""
    return [path for path in files() if path.suffix == ".md"]


@cache
def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), str(path))


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, and for `from a import b` both `a` and `a.b`."""
    found = set[str]()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute here"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def tops(path: Path) -> set[str]:
    """The top-level packages that a file imports."""
    return {name.partition(".")[0] for name in imports(path)}


def section(document: str, heading: str) -> str:
    """The part of a document under a heading, up to the next of the same rank or a higher one."""
    rank = len(heading.partition(" ")[0])
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{rank}}} |\Z)", document, re.MULTILINE | re.DOTALL)
    assert found, f"there is no {heading!r}"
    return found[1]


def first_cells(part: str) -> list[str]:
    """What stands in backticks at the beginning of each row of the tables in a part."""
    return re.findall(r"^\| `([^`]+)`", part, re.MULTILINE)
