"""What libraries keep to themselves may change in any of their releases: each use of it stands here, with its reason.

A use that is not listed fails, and so does an entry that is used no longer. The library of each entry has an upper
bound in pyproject.toml, below the first version in which nobody has looked whether the member is still there.
"""

from __future__ import annotations

import ast
import builtins
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, get_origin

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import PACKAGES, ROOT, files, text, tree


class Use(NamedTuple):
    bound: str
    reason: str


PRODUCT: dict[str, Use] = {}
SUPPORT: dict[str, Use] = {
    "_in_use_connections": Use("redis<9", "a test has a connection be in use without using it"),
    "_writer": Use("redis<9", "a test cuts a connection below redis-py"),
}
SUBCLASSED = {
    "click<9": "its commands, groups and kinds of parameters are subclassed",
    "redis<9": "its connections are subclassed, and a pool is given ours",
    "uvicorn<0.55": "its protocol for HTTP and its server are subclassed",
    "websockets<18": "its state machine is driven a piece at a time, and its fields are read between them",
}
"""Upper bounds that stand without a private member, too."""
DOCUMENTED = {"_exit", "_replace"}
"""Of the standard library: they begin with an underscore, but its documentation offers them."""

AREAS = {"product": (PACKAGES, PRODUCT), "support": (("proofs", "benchmarks", "harness", "tests"), SUPPORT)}
OURS = {*PACKAGES, "proofs", "benchmarks", "harness", "tests", "examples"}
BY_NAME = {"getattr", "setattr", "hasattr", "delattr"}
"""Functions, and methods of pytest's monkeypatch, that are given the name of an attribute."""


@pytest.mark.parametrize("area", AREAS)
def test_no_other_private_member_of_a_library_is_used(area: str) -> None:
    folders, listed = AREAS[area]
    used = {use: where for path in python_files(*folders) for use, where in uses(path)}
    unlisted = {use: where for use, where in used.items() if use not in listed}
    assert unlisted == {}, "list it with its reason, or do without it"
    assert set(listed) - set(used) == set(), "used no longer: take it from the table"


def test_what_rests_on_a_library_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(line) for line in project["dependencies"]]
    bounds = {f"{one.name}{each}" for one in needed for each in one.specifier if each.operator in ("<", "<=")}
    assert bounds == {use.bound for _, table in AREAS.values() for use in table.values()} | set(SUBCLASSED)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import redis._parsers", "redis._parsers"),
        ("from redis import _parsers", "redis._parsers"),
        ("from redis._parsers import Encoder", "redis._parsers"),
        ("client._pool", "_pool"),
        ("setattr(client, '_pool', None)", "_pool"),
        ("monkeypatch.setattr('redis.client._pool', None)", "_pool"),
        ("class Mine(Connection):\n def _error_message(self): ...", "_error_message"),
        ("class Mine(Connection):\n def close(self): self._close()", "_close"),
        ("class Mine(Connection):\n def open(self): self._writer = None", "_writer"),
    ],
)
def test_each_kind_of_use_is_found(source: str, name: str) -> None:
    found = names_in(ast.parse(source), Path("eventstore/redis_client/connections.py"))
    assert name in {each for each, _ in [*found.imported, *found.accessed, *found.inherited]}


# How they are found


def uses(path: Path) -> Iterator[tuple[str, str]]:
    """Each private name of a library that a file uses, and where."""
    found = names(path)
    for name, line in [*found.imported, *found.inherited]:
        yield name, f"{path}:{line}"
    for name, line in found.accessed:
        if name not in (found.defined if name in shared() else ours()):
            yield name, f"{path}:{line}"


@cache
def ours() -> frozenset[str]:
    """Names that are defined anywhere in the tree, but for the examples."""
    return frozenset[str]().union(
        *(names(path).defined for folders, _ in AREAS.values() for path in python_files(*folders))
    )


@cache
def shared() -> frozenset[str]:
    """Private names of the library classes that classes of the product derive from. Behind another object than `self`,
    such a name is taken for the library's, unless the file defines one like it."""
    return frozenset[str]().union(*(names(path).above for path in python_files(*PACKAGES)))


def python_files(*folders: str) -> list[Path]:
    return [path for path in files() if path.parts[0] in folders and path.suffix == ".py" and text(path).strip()]


@dataclass
class Names:
    """The private names of a file, with the lines of those that may be of a library."""

    defined: set[str] = field(default_factory=set[str])
    imported: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    accessed: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Behind a dot, or given to a function that looks an attribute up by its name."""
    inherited: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Defined or used by a class, and by a library's class that it derives from."""
    above: set[str] = field(default_factory=set[str])
    """Of the library classes that those of this file derive from."""


@cache
def names(path: Path) -> Names:
    return names_in(tree(path), path)


def names_in(module: ast.Module, path: Path) -> Names:
    """`path`: of the module in whose names the bases of classes are looked up."""
    found = Names()
    for node in ast.walk(module):
        match node:
            case ast.Import() | ast.ImportFrom():
                found.imported += [(name, node.lineno) for name in from_outside(node)]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.defined.add(name)
            case ast.ClassDef(name=name):
                found.defined.add(name)
                found.above |= (theirs := above(node, path))
                found.inherited += [(each, node.lineno) for each in own(node) & theirs]
            case ast.Name(id=name, ctx=ast.Store()):
                found.defined.add(name)
            case ast.Attribute(attr=name) if private(name):
                found.accessed.append((name, node.lineno))
                if isinstance(node.ctx, ast.Store) and of_self(node):
                    found.defined.add(name)
            case ast.Call() if getattr(node.func, "id", getattr(node.func, "attr", "")) in BY_NAME:
                given = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                parts = [part for name in given for part in name.split(".")]
                found.accessed += [(part, node.lineno) for part in parts if private(part)]
            case _:
                pass
    return found


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


def of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def from_outside(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules and names with an underscore, of libraries, that are imported here."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    else:
        module = node.module or ""
        hidden = any(map(private, module.split(".")))
        found = [module] if hidden else [f"{module}.{alias.name}" for alias in node.names]
    return [name for name in found if name.split(".")[0] not in OURS and any(map(private, name.split(".")))]


def own(node: ast.ClassDef) -> set[str]:
    """The private names that a class defines, or uses of itself."""
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and of_self(one)}
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(one.name)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if private(name)}


def above(node: ast.ClassDef, path: Path) -> set[str]:
    """The private names of the library classes that a class derives from. For those its module is imported."""
    heads = {next(one.id for one in ast.walk(base) if isinstance(one, ast.Name)) for base in node.bases}
    if heads <= plain(path):
        return set()
    module = import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    bases = [eval(ast.unparse(base), dict(vars(module))) for base in node.bases]
    kinds = [kind for kind in (get_origin(base) or base for base in bases) if isinstance(kind, type)]
    return {name for kind in kinds for parent in kind.__mro__ if of_library(parent) for name in kept_by(parent)}


@cache
def plain(path: Path) -> frozenset[str]:
    """What a file has of Python itself: builtins, and what it imports from the standard library."""
    imports = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
    found = set(vars(builtins))
    for node in imports:
        for alias in node.names:
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            if module.split(".")[0] in sys.stdlib_module_names:
                found.add(alias.asname or alias.name.split(".")[0])
    return frozenset(found)


def of_library(kind: type) -> bool:
    top = kind.__module__.split(".")[0]
    return top not in OURS and top not in sys.stdlib_module_names


@cache
def kept_by(kind: type) -> frozenset[str]:
    """The private names of a library's class: its members, and what its methods keep in `self`."""
    found = set(vars(kind))
    source = sys.modules[kind.__module__].__file__ or ""
    for node in ast.walk(ast.parse(Path(source).read_text(encoding="utf-8"))) if source.endswith(".py") else ():
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            found |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and of_self(one)}
    return frozenset(name for name in found if private(name))
