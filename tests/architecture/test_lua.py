"""Each script is short, and its header tells what it takes and what it answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tree import scripts, text

LONGEST = 120
SCRIPTS = [pytest.param(path, id=str(path)) for path in scripts()]
NUMBERED = re.compile(r"(?:^|\s{2,}|, )(\d+)(…?)(?=\s+\S)")


def split(path: Path) -> tuple[str, str]:
    """The comment that a script begins with, and its code without comments."""
    lines = text(path).splitlines()
    head = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    code = (line.partition("--")[0] for line in lines[head:])
    return "\n".join(line.removeprefix("--") for line in lines[:head]), "\n".join(code)


def part(header: str, name: str) -> str:
    """What the header says of KEYS, ARGV or Replies."""
    begins = r"(?:^|  ) *{}\b"
    ends = rf"{begins.format('(?:KEYS|ARGV|Replies)')}|^ *$|\Z"
    found = re.search(rf"{begins.format(name)}(.*?)(?={ends})", header, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def documented(header: str, name: str) -> tuple[set[int], bool]:
    """The numbers that the header explains, and whether more may follow the last of them."""
    found = [NUMBERED.findall(line) for line in part(header, name).splitlines()]
    numbers = [pair for line in found for pair in line]
    return {int(number) for number, _ in numbers}, any(more for _, more in numbers) or "then" in part(header, name)


def used(code: str, name: str) -> set[int]:
    """The places of KEYS or ARGV that the code reads by number."""
    return {int(number) for number in re.findall(rf"\b{name}\[(\d+)\]", code)}


@pytest.mark.parametrize("path", SCRIPTS)
def test_a_script_is_short(path: Path) -> None:
    assert len(text(path).splitlines()) <= LONGEST


@pytest.mark.parametrize("path", SCRIPTS)
def test_its_header_tells_keys_arguments_and_replies(path: Path) -> None:
    header, _ = split(path)
    assert header.strip(), "a script begins with what it is for"
    assert [name for name in ("KEYS", "ARGV", "Replies") if not part(header, name).strip()] == []


@pytest.mark.parametrize("path", SCRIPTS)
@pytest.mark.parametrize("name", ["KEYS", "ARGV"])
def test_its_header_agrees_with_its_code(path: Path, name: str) -> None:
    header, code = split(path)
    numbers, _ = documented(header, name)
    assert numbers == set(range(1, max(numbers, default=0) + 1)), "the header leaves a number out"
    assert used(code, name) <= numbers, "the code uses what the header does not explain"
    dynamic = re.search(rf"\b{name}\[[^\]]*[a-z]|#{name}\b|\bunpack\({name}\b", code)
    assert dynamic or numbers - used(code, name) == set(), "the header explains what the code does not use"


@pytest.mark.parametrize("path", SCRIPTS)
def test_a_script_builds_no_key_and_scans_for_none(path: Path) -> None:
    _, code = split(path)
    assert "layby" not in code
    assert re.search(r"redis\.p?call\('(KEYS|SCAN|EVAL)", code) is None


@pytest.mark.parametrize("path", SCRIPTS)
def test_a_script_that_says_so_writes_nothing(path: Path) -> None:
    header, code = split(path)
    writes = re.search(r"call\('(SET|H(SET|DEL)|Z(ADD|REM)|X(ADD|TRIM|DEL)|UNLINK|DEL|PEXPIRE|RPUSH|SPUBLISH)", code)
    assert ("Writes nothing" in header) == (writes is None and "redis.call(command" not in code)
