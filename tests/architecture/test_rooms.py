"""Rooms import in one direction, hold few modules, and name each thing once."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.rooms import graph, module_graph
from tests.architecture.tree import ROOT, files, modules, tree

DOCUMENTED_FROM = 6
"""A room of this many files says in one docstring what it is for and what it may import."""
ONE_WAY = (
    ("domain", "support", "redis_keys", "redis_client", "commit", "log", "feed", "event_store"),
    ("redis_client", "api_keys"),
)
PAIRS = {
    "decisions": "a rule, and its routes in the Zhin mount",
    "bodies": "what every route reads, and what the Zhin mount reads",
    "errors": "the refusals of the domain, and what keeps the embedded engine from running",
    "events": "a layer and its routes: what is recorded, read, published, and shown by the Zhin mount",
    "process": "the process of a server, and that of its embedded engine",
    "reader": "one reads a log, one reads the feed",
    "rebuild": "the work, and its command",
    "redis_keys": "each store and its read models name their own keys",
    "sessions": "the routes, and those of the Zhin mount",
}
"""Modules that may bear one name, and why."""


@pytest.mark.parametrize("imported", [graph(), module_graph()], ids=["rooms", "modules"])
def test_none_imports_one_that_imports_it(imported: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("order", ONE_WAY)
def test_rooms_of_the_event_store_import_only_those_before_them(order: tuple[str, ...]) -> None:
    names = [f"eventstore.{name}" for name in order]
    outward = [
        (name, used) for number, name in enumerate(names) for used in graph().get(name, set()) if used in names[number:]
    ]
    assert outward == []


def test_a_large_room_says_what_it_is_for_and_others_say_nothing() -> None:
    counts = Counter(path.parent for path in modules() if path.name != "__init__.py")
    wrong = list[str]()
    for path in files():
        if path.name != "__init__.py" or path.parent not in counts:
            continue
        parsed = ast.parse((ROOT / path).read_text())
        must = counts[path.parent] >= DOCUMENTED_FROM or str(path.parent) in ("eventstore", "projections")
        only_docstring = len(parsed.body) == 1 and ast.get_docstring(parsed) is not None
        if (must and not only_docstring) or (not must and parsed.body):
            wrong.append(str(path))
    assert wrong == []


def test_no_two_modules_bear_one_name() -> None:
    places = defaultdict[str, list[Path]](list)
    for path in modules():
        if path.name != "__init__.py":
            places[path.stem].append(path)
    twice = {name for name, found in places.items() if len(found) > 1}
    assert twice - PAIRS.keys() == set()
    assert PAIRS.keys() - twice == set(), "no longer needed"


def test_no_two_public_classes_bear_one_name() -> None:
    places = defaultdict[str, list[str]](list)
    for path in modules():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
