"""What the documents say of the code is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from cli.main import COMMANDS
from cli.serve import serve
from eventstore.settings import Settings
from tests.architecture import map as map_of_the_tree
from tests.architecture.tree import (
    ROOT,
    documents,
    files,
    first_cells,
    modules,
    scripts,
    section,
    text,
    tree,
)

ARCHITECTURE = text(Path("ARCHITECTURE.md"))
OPERATIONS = text(Path("docs/operations.md"))
DECISIONS = Path("docs/decisions")
METRIC_KINDS = {"Counter": "_total", "Gauge": "", "Histogram": ""}


def code(page: Path) -> list[str]:
    """What a page shows as code: in its shell blocks, and between backticks."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    return [*(block for kind, block in blocks if kind == "sh"), *re.findall(r"`[^`\n]+`", prose)]


def test_the_map_is_that_of_the_tree() -> None:
    assert map_of_the_tree.page() == ARCHITECTURE, "run `make map`"


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path)) for path in (*modules(), *scripts())])
def test_a_module_says_first_what_it_is_for(path: Path) -> None:
    assert map_of_the_tree.first_sentence(path)


def test_the_map_names_everything_at_the_top() -> None:
    there = {path.parts[0] + ("/" if len(path.parts) > 1 else "") for path in files()}
    named = set(first_cells(section(ARCHITECTURE, "### At the top")))
    assert named == {name for name in there if not name.startswith(".") or name == ".ci/"}


def test_the_map_names_every_folder_of_tests() -> None:
    there = {path.parts[1] + "/" for path in files() if path.parts[0] == "tests" and len(path.parts) > 2}
    assert set(first_cells(section(ARCHITECTURE, "## Tests"))) == there


def settings_rows() -> dict[str, tuple[str, str, str]]:
    """The table of settings: variable to option, default, what is allowed."""
    rows = re.findall(r"^\| `(LAYBY_\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", OPERATIONS, re.MULTILINE)
    return {name: (option.strip("`"), default.strip("`"), allowed) for name, option, default, allowed in rows}


def default_of(name: str) -> Any:
    field = Settings.model_fields[name]
    if field.default is not PydanticUndefined:
        return field.default
    return getattr(Settings.model_construct(), name)


def test_the_settings_are_those_of_the_code() -> None:
    options = {parameter.name: parameter.opts[0] for parameter in serve.params}
    expected = {
        f"LAYBY_{name.upper()}": (
            options.get(name, "none"),
            "none" if default_of(name) is None else str(default_of(name)),
            field.description,
        )
        for name, field in Settings.model_fields.items()
    }
    assert settings_rows() == expected


def metrics() -> set[str]:
    """The names under which the code exports metrics."""
    calls = [node for path in modules() for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    found = set[str]()
    for call in calls:
        kind, arguments = getattr(call.func, "id", ""), call.args
        if kind in METRIC_KINDS and arguments and isinstance(arguments[0], ast.Constant):
            found.add(f"{arguments[0].value}{METRIC_KINDS[kind]}")
    return found


def test_the_metrics_are_those_of_the_code() -> None:
    assert set(first_cells(section(OPERATIONS, "## Metrics"))) == metrics()


@pytest.mark.parametrize("line", first_cells(section(OPERATIONS, "## What the log says")))
def test_a_log_line_that_is_explained_can_be_logged(line: str) -> None:
    source = re.sub(r'"\s*\+?\s*"', "", "\n".join(map(text, modules())))
    pattern = r"[^\n]*?".join(re.escape(part) for part in line.split("…"))
    assert re.search(r'"' + pattern.rstrip(), source), f"nothing logs {line!r}"


def troubles() -> list[str]:
    """What the code logs as a warning or worse, with `…` where something is filled in; but for the words of others."""
    calls = [node for path in modules() for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    logged = [call for call in calls if getattr(call.func, "attr", "") in ("warning", "error", "exception", "critical")]
    said = [call.args[0] for call in logged if call.args and ast.unparse(call.func).startswith("log.")]
    said += [word.value for call in calls for word in call.keywords if word.arg == "failed"]  # see `supervise`
    texts = [ast.unparse(each) for each in said if not isinstance(each, ast.Name)]
    lines = [re.sub(r"%[.\d]*[sdr]", "…", str(ast.literal_eval(text.replace("' + '", "")))) for text in texts]
    return [line for line in lines if line != "…"]


@pytest.mark.parametrize("line", troubles())
def test_a_line_that_means_trouble_is_explained(line: str) -> None:
    rows = re.findall(r"^\| .*$", section(OPERATIONS, "## What the log says"), re.MULTILINE)
    explained = [known for row in rows for known in re.findall(r"`([^`]+)`", row)]
    patterns = [".*".join(map(re.escape, known.split("…"))) for known in explained]
    assert any(re.match(pattern, line) for pattern in patterns), f"docs/operations.md does not explain {line!r}"


def test_the_index_of_decisions_is_the_folder() -> None:
    index = text(DECISIONS / "README.md")
    listed = re.findall(r"^\| \[(\d+)\. (.+?)\]\((.+?)\)", index, re.MULTILINE)
    there = {path.name for path in files() if path.parent == DECISIONS} - {"README.md"}
    assert {name for _, _, name in listed} == there
    for number, title, name in listed:
        assert name.startswith(f"{int(number):04d}-")
        assert text(DECISIONS / name).startswith(f"# {number}. {title}\n")


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page)) for page in documents()])
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text(page))
    assert [name for name in targets if not (ROOT / page.parent / name).exists()] == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page)) for page in documents()])
def test_modules_and_scripts_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"`([\w./-]+\.(?:py|lua))`", text(page)))
    there = [f"/{path}" for path in files()]
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in there)] == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page)) for page in documents()])
def test_commands_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"(?:^|[`/ ])layby ([a-z]+)\b", "\n".join(code(page)), re.MULTILINE))
    assert named - COMMANDS.keys() == set()


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page)) for page in documents()])
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", text(Path("Makefile")), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)\b", text(page), re.MULTILINE))
    assert named - targets == set()
