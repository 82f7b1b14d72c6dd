"""Imports run one way, from the outside in, and what touches the world stays where it belongs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.tree import LAYERS, modules, text, tops, tree
from tests.architecture.tree import imports as imports_of

MODULES = [pytest.param(path, id=str(path)) for path in modules()]
DOMAIN = [pytest.param(path, id=str(path)) for path in modules() if path.is_relative_to("eventstore/domain")]
WORLD = {"asyncio", "logging", "os", "redis", "socket", "starlette", "threading", "time", "uvicorn"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}


def layer(module: str) -> int | None:
    """The number of the layer that a module belongs to; None for what is not ours."""
    found = [n for n, name in enumerate(LAYERS) if module == name or module.startswith(name + ".")]
    return min(found, default=None)


def own_layer(path: Path) -> int:
    found = layer(".".join(path.with_suffix("").parts))
    assert found is not None
    return found


@pytest.mark.parametrize("path", MODULES)
def test_a_layer_imports_none_that_lies_further_out(path: Path) -> None:
    outward = [name for name in imports_of(path) if (found := layer(name)) is not None and found > own_layer(path)]
    assert outward == []


@pytest.mark.parametrize("path", DOMAIN)
def test_the_domain_is_pure(path: Path) -> None:
    assert tops(path) & WORLD == set()
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [node.lineno for node in ast.walk(tree(path)) if isinstance(node, waits)] == []
    assert "datetime.now" not in text(path) and "utcnow" not in text(path)


@pytest.mark.parametrize("path", MODULES)
def test_only_settings_reads_the_environment(path: Path) -> None:
    names = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    names |= {name.rpartition(".")[2] for name in imports_of(path)}
    assert not names & ENVIRONMENT or path == Path("eventstore/settings.py")


@pytest.mark.parametrize("path", MODULES)
def test_only_api_speaks_http(path: Path) -> None:
    assert not tops(path) & {"starlette", "uvicorn"} or path.parts[0] == "api"


@pytest.mark.parametrize("path", MODULES)
def test_nothing_rests_on_the_tests_or_on_what_only_they_need(path: Path) -> None:
    assert tops(path) & {"tests", "pytest", "httpx", "fakeredis", "hypothesis"} == set()


@pytest.mark.parametrize("what", ["query_params", "door.enter(", "read_body("])
def test_what_a_request_must_pass_stands_in_one_place(what: str) -> None:
    """So that no route reads a parameter that it does not declare, skips the key, or reads a body before the checks."""
    uses = [path for path in modules() if what in text(path).replace(f"def {what}", "")]
    assert uses == [Path("api/requests/endpoint.py")]
