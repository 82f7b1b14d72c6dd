"""Writes the map in ARCHITECTURE.md from the tree: each room, and the first sentence of each module (`make map`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.tree import PACKAGES, ROOT, modules, scripts, text, tree

PAGE = Path("ARCHITECTURE.md")
BEGIN, END = "<!-- The map below is written by `make map`. -->", "<!-- End of the map. -->"


def rooms() -> list[Path]:
    """Every folder of the packages that holds a module or a script."""
    found = {path.parent for path in (*modules(), *scripts()) if path.parts[0] in PACKAGES}
    return sorted(found, key=lambda room: (PACKAGES.index(room.parts[0]), room))


def first_sentence(path: Path) -> str:
    """What a module or a script says of itself first, on one line."""
    if path.suffix == ".lua":
        comments = re.match(r"(?:--.*\n)+", text(path))
        said = re.sub(r"^-- ?", "", comments[0] if comments else "", flags=re.MULTILINE)
    else:
        said = ast.get_docstring(tree(path)) or ""
    found = re.match(r"(.+?)\.(?:\s|$)", said.split("\n\n")[0], re.DOTALL)
    return " ".join((found[1] if found else said.split("\n\n")[0]).split())


def table(room: Path) -> str:
    """The modules of a room, one a row."""
    there = sorted(path for path in (*modules(), *scripts()) if path.parent == room and path.name != "__init__.py")
    return "".join(f"| `{path.name}` | {first_sentence(path)} |\n" for path in there)


def rendered() -> str:
    """The whole map, as it must stand on the page."""
    parts = [BEGIN]
    for room in rooms():
        of_room = room / "__init__.py"
        about = f"{first_sentence(of_room)}.\n\n" if of_room in modules() else ""
        parts.append(f"### `{room}/`\n\n{about}| | |\n|---|---|\n{table(room)}")
    return "\n\n".join([*(part.rstrip("\n") for part in parts), END])


def page() -> str:
    """The page with the map as it is now."""
    before, _, rest = text(PAGE).partition(BEGIN)
    return before + rendered() + rest.partition(END)[2]


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
