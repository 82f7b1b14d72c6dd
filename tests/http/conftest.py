"""A real server in a process of its own, and a client with the few verbs that tests repeat."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

START = Path(__file__).with_name("start.py")
HEARTBEAT_S = 0.2
KEYS_READ_EVERY_S = 0.1


class Server:
    """One server process on a free port."""

    def __init__(self, data_dir: Path, heartbeat_s: float = HEARTBEAT_S, **settings: str) -> None:
        """`heartbeat_s`: how often its streams send one; it waits less than others for changes of keys too."""
        self.data_dir = data_dir
        self.log = data_dir.parent / f"{data_dir.name}.log"
        given = {"port": "0", "data_dir": str(data_dir), **settings}
        timing = {"heartbeat_s": heartbeat_s, "keys_read_every_s": KEYS_READ_EVERY_S}
        arguments = [json.dumps(timing), *(f"{name}={value}" for name, value in given.items())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(START), *arguments], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout
        self.greeting = self.process.stdout.readline()
        if not self.greeting:
            raise RuntimeError(f"the server ended with {self.process.wait()}:\n{self.log.read_text()}")
        self.url = self.greeting.split()[3].rstrip(",")

    def client(self) -> Api:
        return Api(base_url=self.url, timeout=30)

    def stop(self, number: int = signal.SIGTERM, patience_s: float = 10) -> int:
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(patience_s)
        finally:
            self.process.kill()
            self.process.wait()


class Api(httpx.Client):
    """A client that knows sessions."""

    def create(self, **body: Any) -> str:
        answer = self.post("/v1/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["session_id"]

    def publish(self, sid: str, *events: dict[str, Any], **options: Any) -> httpx.Response:
        return self.post(f"/v1/sessions/{sid}/events", json=list(events), **options)

    def ask(self, sid: str, interrupt_id: str = "", **data: Any) -> str:
        interrupt_id = interrupt_id or f"int-{uuid.uuid4().hex[:8]}"
        asked = {"interrupt_id": interrupt_id, "tool_name": "pay", "tool_args": {}, **data}
        answer = self.publish(sid, {"type": "input.requested", "data": asked})
        assert answer.status_code == 201, answer.text
        return interrupt_id

    def decide(self, sid: str, iid: str, action: str = "approve", **body: Any) -> httpx.Response:
        return self.post(f"/v1/sessions/{sid}/calls/{iid}/decision", json={"action": action, **body})

    def page(self, sid: str, **params: Any) -> dict[str, Any]:
        answer = self.get(f"/v1/sessions/{sid}/events", params=params, headers={"Accept": "application/json"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def types(self, sid: str) -> list[str]:
        return [event["type"] for event in self.page(sid, limit=10_000)["events"]]

    def metric(self, name: str) -> float:
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    @contextmanager
    def follow(self, sid: str, headers: dict[str, str] | None = None, **params: Any) -> Iterator[Iterator[str]]:
        """The lines of a stream, heartbeats among them."""
        path = f"/v1/sessions/{sid}/stream"
        with self.stream("GET", path, params=params, headers=headers, timeout=20) as answer:
            assert answer.status_code == 200, answer.read()
            yield answer.iter_lines()


@pytest.fixture(scope="session")
def server_class() -> type[Server]:
    """For fixtures that live longer than a test."""
    return Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("http") / "data")
    yield started
    started.stop()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    with server.client() as client:
        yield client


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers of the test's own."""
    started = list[Server]()

    def start(**options: Any) -> Server:
        started.append(Server(tmp_path / options.pop("name", "data"), **options))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def problem() -> Callable[..., dict[str, Any]]:
    """Checks that an answer is this problem, and gives its body."""

    def check(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
        assert answer.status_code == status, (answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["layby-request-id"]
        body = answer.json()
        assert body["type"] == f"https://layby.dev/problems/{slug}", body
        return body

    return check


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits for a condition that another process brings about."""

    def wait(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < give_up, "did not come about"
            time.sleep(0.01)

    return wait


@pytest.fixture
def events_of() -> Callable[[Iterator[str]], list[dict[str, Any]]]:
    """The events and the end of an NDJSON stream, without its heartbeats."""
    return lambda lines: [json.loads(line) for line in lines if line]
