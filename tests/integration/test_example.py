"""The example, as a user runs it: its two commands, the server and curl are processes of their own, and die at will."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("pydantic_ai")

ROOT = Path(__file__).parents[2]
LAYBY = Path(sys.executable).with_name("layby")
CALL = "turn-1.call_1"
PATIENCE_S = 40
ASKED = [
    "session.started",
    "message.received",
    "turn.started",
    "step.started",
    "message.completed",
    "actions.requested",
    "input.requested",
    "step.interrupted",
    "session.waiting",
]
ANSWERED = ["message.completed", "turn.completed", "step.completed", "session.waiting", "session.completed"]
DONE = [*ASKED, "input.completed", "action.claimed", "action.result", *ANSWERED]


class Server:
    """`layby serve` on one port and one data directory, however often it is killed."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, headers={"Accept": "application/json"})

    def start(self) -> None:
        command = [LAYBY, "serve", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout
        assert self.url in self.process.stdout.readline()

    def kill(self) -> None:
        """No farewell, for the server or for its engine."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0

    def get(self, path: str, **params: str) -> dict[str, Any]:
        return self.http.get(f"/v1/sessions/{path}", params=params).raise_for_status().json()

    def events(self, session: str) -> list[dict[str, Any]]:
        return self.get(f"{session}/events")["events"]

    def call(self, session: str) -> dict[str, Any]:
        return self.get(f"{session}/calls/{CALL}")


class Example:
    """One run of the example's command line."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "examples.approve_transfer", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout
        self.screen = self.process.stdout

    @classmethod
    def start(cls, server: Server, session: str, *more: str) -> Example:
        return cls("start", "--url", server.url, "--session", session, *more)

    @classmethod
    def resume(cls, url: str, session: str, ledger: Path, *more: str) -> Example:
        return cls("resume", "--url", url, "--session", session, "--ledger", ledger, "--lease-ms", "1000", *more)

    def ended(self, code: int = 0) -> str:
        """What it said, and has not been read yet."""
        said = self.screen.read()
        assert self.process.wait(PATIENCE_S) == code, said
        return said

    def says(self, beginning: str) -> None:
        """Waits for a line."""
        said = list[str]()
        for line in self.screen:
            if line.startswith(beginning):
                return
            said.append(line)
        raise AssertionError(f"{beginning!r} was never said: {said}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def paste(screen: str, title: str, user: str = "maria") -> dict[str, Any]:
    """Runs the command of that title as somebody who copied it from the screen."""
    found = re.search(rf"^  # {title}.*\n((?:.*\\\n)*.*)", screen, re.MULTILINE)
    assert found, screen
    answer = subprocess.run(
        ["bash", "-c", found[1]], env={**os.environ, "USER": user}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def lines(ledger: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def types(events: list[dict[str, Any]]) -> list[str]:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return [event["type"] for event in events]


def of(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(event for event in reversed(events) if event["type"] == kind)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert shutil.which("curl")
    server = Server(tmp_path_factory.mktemp("example") / "data")
    server.start()
    yield server
    server.stop()
    server.http.close()


@pytest.fixture
def approved(server: Server) -> Callable[[str], str]:
    """Starts a session and approves its transfer. Gives its id."""

    def ready(session: str) -> str:
        paste(Example.start(server, session).ended(), "approve")
        return session

    return ready


@dataclass
class Story:
    session: str
    answer: dict[str, Any]  # to the curl command
    events: list[dict[str, Any]]
    ledger: list[dict[str, str]]

    def transfer(self, amount: str) -> dict[str, str]:
        return {"reference": f"{self.session}/{CALL}", "to": "acme", "amount": amount}


@pytest.fixture(scope="module")
def stories(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """Four sessions park, everything dies, the server comes back, curl decides, other processes carry on."""
    folder = tmp_path_factory.mktemp("ledgers")

    def resume(name: str) -> Example:
        return Example.resume(server.url, name, folder / name)

    starting = {name: Example.start(server, name) for name in ("approve", "edit", "reject")}
    screens = {name: process.ended() for name, process in starting.items()}
    resuming = {"reject": resume("reject")}  # it waits for the decision through the death of the server
    screens["expire"] = Example.start(server, "expire", "--expires-in-ms", "2500").ended()
    resuming["reject"].says("Waiting")
    calls = {name: server.call(name) for name in screens}
    statuses = {name: call["status"] for name, call in calls.items()}
    on_a_slow_machine = statuses.pop("expire")  # its deadline may have passed already
    assert on_a_slow_machine in ("PENDING_APPROVAL", "EXPIRED")
    assert set(statuses.values()) == {"PENDING_APPROVAL"}
    server.kill()
    deadline = datetime.fromisoformat(calls["expire"]["expires_at"])
    time.sleep(max(0, (deadline - datetime.now(UTC)).total_seconds()))
    server.start()

    answers = {
        "approve": paste(screens["approve"], "approve"),
        "edit": paste(screens["edit"], "approve less"),
        "reject": paste(screens["reject"], "reject"),
        "expire": paste(screens["expire"], "approve"),
    }
    resuming |= {name: resume(name) for name in ("approve", "edit", "expire")}
    for process in resuming.values():
        process.ended()
    return {name: Story(name, answers[name], server.events(name), lines(folder / name)) for name in screens}


def test_approved(stories: dict[str, Story]) -> None:
    story = stories["approve"]
    assert story.answer["outcome"] == "applied"
    assert story.ledger == [story.transfer("250.00")]
    assert types(story.events) == DONE
    decided = of(story.events, "input.completed")
    assert (decided["by"], decided["data"]["action"]) == ("maria", "approve")
    assert of(story.events, "action.result")["data"]["result"] == story.transfer("250.00")
    assert of(story.events, "message.completed")["data"]["text"] == "I transferred 250.00 to acme."


def test_edited(stories: dict[str, Story]) -> None:
    story = stories["edit"]
    assert story.ledger == [story.transfer("125.00")]
    assert types(story.events) == DONE
    assert of(story.events, "input.requested")["data"]["tool_args"] == {"to": "acme", "amount": "250.00"}
    decision = of(story.events, "input.completed")["data"]["decision"]
    assert (decision["by"], decision["edited_args"]) == ("maria", {"to": "acme", "amount": "125.00"})
    assert of(story.events, "action.result")["data"]["result"] == story.transfer("125.00")
    assert of(story.events, "message.completed")["data"]["text"] == "I transferred 125.00 to acme."


def test_rejected(stories: dict[str, Story]) -> None:
    story = stories["reject"]
    assert story.ledger == []
    assert types(story.events) == [*ASKED, "input.completed", *ANSWERED]
    assert of(story.events, "input.completed")["data"]["decision"]["note"] == "Not this month."
    told = "I transferred nothing. It was rejected by maria: Not this month."
    assert of(story.events, "message.completed")["data"]["text"] == told


def test_expired_while_the_server_was_down(stories: dict[str, Story]) -> None:
    story = stories["expire"]
    assert (story.answer["status"], story.answer["call"]["status"]) == (410, "EXPIRED")
    assert story.ledger == []
    assert types(story.events) == [*ASKED, "input.expired", "input.refused", *ANSWERED]
    assert of(story.events, "input.refused")["by"] == "maria"
    told = "I transferred nothing. Nobody approved it in time."
    assert of(story.events, "message.completed")["data"]["text"] == told


def test_the_log_holds_all_that_a_new_process_needs(stories: dict[str, Story]) -> None:
    history = [
        (message["kind"], part["part_kind"])
        for event in stories["edit"].events
        for message in event["data"].get("model_messages", [])
        for part in message["parts"]
    ]
    assert history == [
        ("request", "user-prompt"),
        ("response", "text"),
        ("response", "tool-call"),
        ("request", "tool-return"),
        ("response", "text"),
    ]


@pytest.mark.usefixtures("stories")
def test_a_start_may_be_repeated(server: Server) -> None:
    before = server.events("edit")
    assert "I transferred 125.00 to acme." in Example.start(server, "edit").ended()
    assert server.events("edit") == before


def test_killed_between_the_tool_and_its_result(server: Server, approved: Callable[[str], str], tmp_path: Path) -> None:
    session, ledger = approved("killed"), tmp_path / "ledger"
    os.mkfifo(ledger)  # holds the tool at the door until we read
    first = Example.resume(server.url, session, ledger)
    first.says("Claimed")
    server.kill()
    transferred = ledger.read_text()
    first.says("Ran")
    first.kill()
    ledger.unlink()
    ledger.write_text(transferred)
    server.start()

    screen = Example.resume(server.url, session, ledger).ended(code=4)
    assert "Outcome unknown" in screen and "The ledger has it" in screen and "did not run" not in screen
    assert ledger.read_text() == transferred
    assert paste(screen, "it ran", user="otto")["call"]["status"] == "EXECUTED"
    assert "I transferred 250.00 to acme." in Example.resume(server.url, session, ledger).ended()
    assert [line["amount"] for line in lines(ledger)] == ["250.00"]
    events = server.events(session)
    assert types(events) == [
        *ASKED,
        "input.completed",
        "action.claimed",
        "action.lapsed",
        "action.settled",
        *ANSWERED,
    ]
    assert of(events, "action.settled")["by"] == "otto"


@contextmanager
def mute(server: Server, ending: str) -> Iterator[tuple[str, threading.Event]]:
    """A way to the server on which the answer to the POST of that ending is lost. Gives its URL, and when."""
    lost, over = threading.Event(), threading.Event()

    class Between(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = httpx.request(
                self.command, server.url + self.path, content=body, headers=dict(self.headers), timeout=PATIENCE_S
            )
            if self.command == "POST" and self.path.endswith(ending):
                lost.set()
                over.wait(PATIENCE_S)
                return
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET  # noqa: N815  (http.server looks for these names)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  (the name that http.server gives it)

    with ThreadingHTTPServer(("127.0.0.1", 0), Between) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{between.server_port}", lost
        over.set()
        between.shutdown()


def test_killed_again_and_again_before_it_hears_what_it_did(
    server: Server, approved: Callable[[str], str], tmp_path: Path
) -> None:
    session, ledger = approved("deaf"), tmp_path / "ledger"

    def killed_before_the_answer_to(ending: str) -> None:
        with mute(server, f"/{ending}") as (url, lost):
            process = Example.resume(url, session, ledger)
            assert lost.wait(PATIENCE_S), process.ended()
            process.kill()

    killed_before_the_answer_to("claim")
    screen = Example.resume(server.url, session, ledger).ended(code=4)
    assert "Outcome unknown" in screen and lines(ledger) == []
    paste(screen, "it did not run", user="otto")
    killed_before_the_answer_to("result")
    killed_before_the_answer_to("events")
    assert [line["amount"] for line in lines(ledger)] == ["250.00"]
    unsure = ["action.claimed", "action.lapsed", "action.settled"]
    carried_out = ["action.claimed", "action.result"]
    assert types(server.events(session)) == [*ASKED, "input.completed", *unsure, *carried_out, *ANSWERED]


@pytest.mark.usefixtures("stories")
def test_the_chain_of_events_is_whole(server: Server) -> None:
    done = subprocess.run(
        [LAYBY, "verify", "--data-dir", server.data_dir], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0 and "intact" in done.stdout, done.stdout + done.stderr
