"""The tour in README.md, run as a reader would: every command as it stands, every output as it is shown."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.conftest import Server

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
TOUR = re.search(r"^## A tour\b.*?(?=^## )", README, re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "8700"
STEP_ENDS = "== end of step =="


def steps() -> list[tuple[str, str]]:
    """Each step's commands, and what it says will be seen."""
    assert TOUR
    blocks: list[tuple[str, str]] = FENCED.findall(TOUR[0])
    assert [kind for kind, _ in blocks] == ["sh", "text"] * (len(blocks) // 2)
    return [(commands, shown) for (_, commands), (_, shown) in zip(blocks[::2], blocks[1::2], strict=True)]


def pattern(shown: str) -> str:
    """What is shown, as a regular expression: `…` stands for a part of a line."""
    return ".*".join(map(re.escape, shown.strip().split("…")))


def port_is_free() -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(PORT)))
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader stands: a folder with `.venv` in it, and with the server's data beside that."""
    folder = tmp_path_factory.mktemp("tour")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[str]:
    """The port of a server: the one that the tour names, if nobody else has it."""
    server = Server(folder / "layby-data", heartbeat_s=15, port=PORT if port_is_free() else "0")
    yield server.url.rpartition(":")[2]
    server.stop()


@pytest.mark.parametrize("time", ["the first time", "once more"])
def test_the_tour_shows_what_it_says(time: str, folder: Path, port: str) -> None:
    end = f"printf '\\n{STEP_ENDS}\\n'\n"
    script = "set -euo pipefail\n" + "".join(commands + end for commands, _ in steps()).replace(PORT, port)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment | {"no_proxy": "127.0.0.1", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    seen = done.stdout.split(f"\n{STEP_ENDS}\n")[:-1]
    assert len(seen) == len(steps())
    for (_, shown), output in zip(steps(), seen, strict=True):
        assert re.fullmatch(pattern(shown.replace(PORT, port)), output.strip()), f"shown:\n{shown}\nseen:\n{output}"


def test_the_section_on_keys_shuts_the_door(tmp_path: Path) -> None:
    section = re.search(r"^## Keys\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert section
    (commands,) = [found for kind, found in FENCED.findall(section[1]) if kind == "sh"]
    (tmp_path / ".venv").symlink_to(sys.prefix)
    server = Server(tmp_path / "layby-data", heartbeat_s=15)
    try:
        keyless = "curl -s -o /dev/null -w ' %{http_code}' http://127.0.0.1:8700/v1/sessions\n"
        script = ("set -euo pipefail\n" + commands + keyless).replace(PORT, server.url.rpartition(":")[2])
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_")}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment | {"no_proxy": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=90,
        )
    finally:
        server.stop()
    assert (done.returncode, done.stdout) == (0, '{"sessions":[],"next_cursor":null} 401'), done.stderr
    assert "not shown again" in done.stderr


def test_it_needs_only_curl_and_standard_tools() -> None:
    commands = re.sub(r"'[^']*'|\"(?:\\.|[^\"])*\"", "…", "".join(commands for commands, _ in steps()))
    words = set(re.findall(r"(?:^|[|(;{])\s*([a-z]\w*)\b", commands, re.MULTILINE))
    assert words == {"curl", "echo", "grep", "mktemp", "only", "sed", "wait"}
