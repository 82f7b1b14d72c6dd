"""The rooms of the product and which of them import which.

A room is a folder, or a module at the top of a package. The domain is one room with all that is in it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.architecture.tree import imports, modules


def room_of(module: str) -> str:
    """The room of a dotted module of the product."""
    if module.startswith("eventstore.domain"):
        return "eventstore.domain"
    package, _, rest = module.partition(".")
    folder, _, _ = rest.rpartition(".")
    return f"{package}.{folder or rest}" if rest else package


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def module_graph() -> dict[str, set[str]]:
    """Each module of the product, and the others that it imports anywhere in it."""
    names = {dotted(path): path for path in modules()}
    return {name: {each for each in imports(path) if each in names} - {name} for name, path in names.items()}


@cache
def graph() -> dict[str, set[str]]:
    """Each room, and the other rooms that its modules import."""
    found = dict[str, set[str]]()
    for name, used in module_graph().items():
        found.setdefault(room_of(name), set()).update({room_of(each) for each in used} - {room_of(name)})
    return found
