"""`layby keys`, on an engine of its own: what it prints, and what it refuses."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

KEY = re.compile(r"layby_[0-9a-z]{12}_[0-9a-z]{52}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "data"


def keys(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from cli.main import main; main()", "keys", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def refused(*arguments: str) -> str:
    """The one line that a refusal is."""
    done = keys(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_life_of_keys(folder: Path) -> None:
    where = ("--data-dir", str(folder))
    made = keys("create", "--name", "svc", "--scopes", "read, publish", *where)
    assert made.returncode == 0, made.stderr
    assert KEY.fullmatch(made.stdout.strip()), "the key alone, for a script to take"
    assert made.stderr.startswith("Key svc of tenant default, for publish, read; it never expires.\n")
    assert "went to stdout, which is no terminal" in made.stderr
    assert "not shown again" in made.stderr and made.stdout.strip() not in made.stderr
    other = ("create", "--name", "svc", "--scopes", "decide", "--tenant", "acme", "--expires-in-days", "2", "--json")
    told = json.loads(keys(*other, *where).stdout)
    assert told.keys() == {"name", "key", "scopes", "tenant", "expires_at"} and KEY.fullmatch(told["key"])
    assert (told["name"], told["scopes"], told["tenant"]) == ("svc", ["decide"], "acme")
    assert told["expires_at"].endswith("Z")
    assert "has a key svc already" in refused("create", "--name", "svc", "--scopes", "read", *where)
    assert keys("revoke", "--name", "svc", *where).stdout == "key svc of tenant default is revoked\n"
    assert "no key svc to revoke" in refused("revoke", "--name", "svc", *where)
    table = keys("list", *where).stdout
    assert [line.split()[:4] for line in table.splitlines()] == [
        ["TENANT", "NAME", "STATE", "SCOPES"],
        ["acme", "svc", "live", "decide"],
        ["default", "svc", "revoked", "publish,read"],
    ]
    listed = keys("list", "--json", "--tenant", "acme", *where).stdout
    assert [(one["name"], one["state"], one["revoked_at"]) for one in json.loads(listed)] == [("svc", "live", None)]
    assert not KEY.search(table + listed)
    assert keys("list", "--tenant", "bolt", *where).stdout == "tenant bolt has no keys\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "--name", "a", "--scopes", "fly"), "publish, read, decide, execute, admin, act_as"),
        (("create", "--name", "a", "--scopes", "read,fly,hop"), "'--scopes': there is no scope 'fly', 'hop'; "),
        (("create", "--name", "a", "--scopes", ""), "'--scopes': a key needs a scope"),
        (("create", "--name", "a", "--scopes", "read", "--scopes", "publish"), "--scopes is given 2 times"),
        (("create", "--name", "layby", "--scopes", "read"), "no key can be called layby"),
        (("create", "--name", "a b", "--scopes", "read"), "'--name': 'a b' is no name for a key"),
        (("create", "--name", "a", "--scopes", "read", "--tenant", "a:{b}"), "is no tenant"),
        (("create", "--name", "a", "--scopes", "read", "--expires-in-days", "0"), "--expires-in-days"),
        (("create", "--name", "a", "--scopes", "read", "--expires-in-days", "nan"), "number of days"),
        (("create", "--name", "a", "--scopes", "read", "--expires-in-days", "abc"), "'abc' is not a number of days"),
        (("create", "--scopes", "read"), "--name"),
    ],
)
def test_wrong_words_are_one_line(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(*arguments, "--data-dir", str(folder))


@pytest.mark.parametrize("command", [("list",), ("revoke", "--name", "a")])
def test_where_nothing_is_nothing_is_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "no Layby data" in refused(*command, "--data-dir", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_in_a_terminal_the_key_stands_between_its_words(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from cli.main import main; main()", "keys", "create", "--data-dir", str(folder)]
    done = subprocess.run([*command, "--name", "seen", "--scopes", "read"], stdout=theirs, stderr=theirs, timeout=60)
    os.close(theirs)
    told = os.read(ours, 10_000).decode().replace("\r", "")
    os.close(ours)
    assert done.returncode == 0, told
    first, key, last = told.split("\n\n") if told.count("\n\n") == 2 else [told, "", ""]
    assert first.endswith("it never expires:") and KEY.fullmatch(key) and last.startswith("Keep it now"), told


def test_a_redis_that_is_not_there_is_one_line() -> None:
    told = refused("list", "--redis-url", "redis://:secret@127.0.0.1:1")
    assert "does not answer" in told and "secret" not in told


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from cli.main import main\ntry: main()\nfinally: print('redis' in sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "keys", "create", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == "False\n" and "--scopes" in done.stdout
