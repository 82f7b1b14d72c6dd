"""The example on a server with keys: the agent's cannot decide, and who decides is the reviewer's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from tests.integration.test_example import DONE, LAYBY, Example, Server, lines, of, paste, types

Keys = Callable[[str, str], str]


def layby(*arguments: str | Path) -> str:
    done = subprocess.run([LAYBY, *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keyed") / "data"


@pytest.fixture(scope="module")
def keys(data_dir: Path) -> dict[str, str]:
    """Made before there is a server, or anything."""
    scopes = {"agent": "publish,read,execute", "reviewer": "decide", "auditor": "read"}
    return {
        name: layby("keys", "create", "--name", name, "--scopes", words, "--data-dir", data_dir)
        for name, words in scopes.items()
    }


@pytest.fixture(scope="module")
def server(data_dir: Path, keys: dict[str, str]) -> Iterator[Server]:
    server = Server(data_dir)
    server.http.headers["Authorization"] = f"Bearer {keys['auditor']}"
    server.start()
    yield server
    server.stop()
    server.http.close()


def test_the_agent_asks_the_reviewer_decides_the_agent_pays(
    server: Server, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAYBY_KEY", keys["agent"])
    screen = Example.start(server, "keyed").ended()
    assert "$REVIEWER_KEY" in screen and keys["agent"] not in screen
    monkeypatch.setenv("REVIEWER_KEY", keys["agent"])
    assert paste(screen, "approve")["type"].endswith("/missing-scope")
    monkeypatch.setenv("REVIEWER_KEY", keys["reviewer"])
    assert paste(screen, "approve")["outcome"] == "applied"
    Example.resume(server.url, "keyed", tmp_path / "ledger").ended()
    events = server.events("keyed")
    assert types(events) == DONE
    assert (of(events, "input.completed")["by"], of(events, "action.result")["by"]) == ("reviewer", "agent")
    assert len(lines(tmp_path / "ledger")) == 1


def test_without_its_key_the_example_says_what_is_wrong(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAYBY_KEY", raising=False)
    assert "(unauthorized)" in Example.start(server, "keyless").ended(1)


def test_logs_are_verified_and_models_rebuilt_beside_a_server_with_keys(server: Server, data_dir: Path) -> None:
    assert layby("verify", "--data-dir", data_dir).endswith(": intact")
    assert layby("rebuild", "--data-dir", data_dir).startswith("rebuilt ")
