"""`layby demo`: a session that parks until you decide, played on a server of its own."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from cli.common import Trouble, operator_errors, settings_from

INDENT = "  "
CALL = "refund"
WORKER = "demo-worker"
ASKED = {"order": 1042, "amount": 49.9}
PAUSE_S = 0.4
"""Between the steps of the story, so that it can be read as it happens."""
THINKING_S = 1.5
"""How long --auto takes to decide."""
_PRIVATE = "import sys; from cli.demo import serve_privately; serve_privately(*sys.argv[1:])"
_MAIN = "from cli.main import main; main()"


@click.command()
@click.option("--auto", is_flag=True, help="Decide by itself after a moment, then end.")
@click.option("--port", metavar="PORT", default="0", help="Port of the demo's server. Default: a free one")
@click.option("--data-dir", metavar="DIRECTORY", help="Keep the data here. Default: a temporary directory")
def demo(auto: bool, port: str, data_dir: str | None) -> None:
    """Play a session that parks until you decide, on a server of its own.

    The server and its engine end with the demo. Nothing else on this machine is touched.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with operator_errors():
        settings = settings_from(port=port, data_dir=data_dir)
    past_redis = () if settings.redis_url is None else ("env", "-u", "LAYBY_REDIS_URL")
    with _directory(data_dir) as directory, _server(port, directory) as url:
        _say("An agent wants to refund an order, and may not before a person has decided.")
        _say(f"\n{INDENT}server  {url}\n{INDENT}data    {directory}\n")
        story = _Story(url)
        _play(story, _decide_for_you if auto else _ask_you)
        if auto:
            _verify(story, directory, past_redis)
            return
        _tell_what_is_next(story, directory, past_redis)
        try:
            signal.pause()
        except KeyboardInterrupt:
            _say("")


def serve_privately(port: str, data_dir: str) -> None:
    """The demo's server: on an embedded engine, even where the environment names a Redis."""
    with operator_errors():
        settings = settings_from(host="127.0.0.1", port=port, data_dir=data_dir)
        from api.server import run

        sys.exit(run(settings.model_copy(update={"redis_url": None})))


@contextmanager
def _directory(named: str | None) -> Generator[Path]:
    from tempfile import TemporaryDirectory

    if named is not None:
        yield Path(named)
        return
    with TemporaryDirectory(prefix="layby-demo-") as made:
        yield Path(made)


@contextmanager
def _server(port: str, data_dir: Path) -> Generator[str]:
    """The URL of a server that ends when the block does. Raises `Trouble` with what it says if it cannot start."""
    from subprocess import PIPE, Popen
    from tempfile import TemporaryFile

    command = [sys.executable, "-P", "-c", _PRIVATE, port, str(data_dir)]
    with TemporaryFile("w+") as log, Popen(command, stdout=PIPE, stderr=log, text=True) as process:
        assert process.stdout
        try:
            greeting = re.search(r"http://[^ ,]+", process.stdout.readline())
            if greeting is None:
                process.wait()
                log.seek(0)
                raise Trouble((log.read().splitlines() or ["the server did not start"])[-1].removeprefix("layby: "))
            yield greeting[0]
        finally:
            process.terminate()
            process.wait()  # the data may go only once nobody writes any more


class _Story:
    """One session, told as its events come in."""

    def __init__(self, url: str) -> None:
        self.session_id: str = f"demo-{secrets.token_hex(3)}"
        self.url: str = f"{url}/v1/sessions/{self.session_id}"
        self._sessions: str = f"{url}/v1/sessions"
        self.parked_at: int = 0
        self._lines: Iterator[bytes] = iter(())

    @property
    def decision_url(self) -> str:
        return f"{self.url}/calls/{CALL}/decision"

    def begin(self, **body: Any) -> None:
        made = _post(self._sessions, {"session_id": self.session_id, **body})
        self._lines = _stream(f"{self.url}/stream")
        self._until(lambda event: event["seq"] >= made["seq"])

    def publish(self, *events: dict[str, Any]) -> None:
        answer = _post(f"{self.url}/events", list(events))
        self._until(lambda event: event["seq"] >= answer["last_seq"])

    def act(self, verb: str, body: dict[str, Any], event: str) -> dict[str, Any]:
        """Move the call on, and tell of the event that comes of it."""
        answer = _post(f"{self.url}/calls/{CALL}/{verb}", body)
        self._until(lambda told: told["type"] == event)
        return answer

    def decided(self) -> dict[str, Any]:
        """The event that closes the call, whoever brings it about."""
        return self._until(lambda event: event["type"] in ("input.completed", "input.expired"))

    def _until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            line = next(self._lines, b"")
            if not line:
                raise Trouble("the demo's server has ended")
            if line.strip():  # an empty one is a heartbeat
                event = json.loads(line)
                _tell(event)
                if event["type"] == "session.waiting" and event["data"]["parked"]:
                    self.parked_at = event["seq"]
                if reached(event):
                    time.sleep(PAUSE_S)
                    return event


def _play(story: _Story, decide: Callable[[_Story], None]) -> None:
    story.begin(agent="support", message="Order 1042 came broken. I want my money back.")
    story.publish({"type": "turn.started"}, _says("I'll refund order 1042."))
    story.publish(_event("actions.requested", actions=[{"tool_name": "refund_order", "tool_args": ASKED}]))
    asks = {"tool_name": "refund_order", "tool_args": ASKED, "allow_edits": True, "message": "Refund order 1042?"}
    story.publish(_event("input.requested", interrupt_id=CALL, expires_in_ms=3_600_000, **asks))
    decide(story)
    decision = story.decided()["data"].get("decision")
    if decision and decision["action"] == "approve":
        claim = story.act("claim", {"owner": WORKER}, "action.claimed")
        time.sleep(PAUSE_S)  # here the tool would run
        done = {"refunded": claim["args"].get("amount")}
        story.act("result", {"attempt": claim["attempt"], "result": done}, "action.result")
        story.publish(_says(f"Done: {done['refunded']} refunded."))
    else:
        story.publish(_says("I'm sorry, I may not refund this order."))
    story.publish({"type": "turn.completed"}, {"type": "session.completed"})


def _event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def _says(text: str) -> dict[str, Any]:
    return _event("message.completed", text=text)


def _decide_for_you(story: _Story) -> None:
    time.sleep(THINKING_S)
    _post(story.decision_url, {"action": "approve"}, actor="demo")


def _ask_you(story: _Story) -> None:
    edited = json.dumps({"action": "approve", "edited_args": {**ASKED, "amount": 20}}, separators=(",", ":"))
    _say("\nThe session is parked. Decide in another terminal:\n")
    for word, body in (
        ("Approve", '{"action":"approve"}'),
        ("Approve other arguments", edited),
        ("Reject", '{"action":"reject","note":"too much"}'),
    ):
        _say(f"{word}:", bold=True)
        lines = (f"curl {story.decision_url}", "  -H 'Layby-Actor: anna'", f"  -d '{body}'")
        _say(f"{INDENT}" + f" \\\n{INDENT}".join(lines) + "\n")
    _say("Waiting for you (Ctrl-C ends the demo) …\n")


def _tell_what_is_next(story: _Story, directory: Path, past_redis: Sequence[str]) -> None:
    _say("\nThe session is complete. The server runs until you press Ctrl-C. In another\nterminal:\n")
    for what, command in (
        ("Read the log", f"curl {story.url}/events"),
        (f"See the session as of event {story.parked_at}, parked", f"curl '{story.url}?at={story.parked_at}'"),
        ("Check that nobody changed its log", shlex.join([*past_redis, _layby(), *_check(story, directory)])),
    ):
        _say(f"{what}:", bold=True)
        _say(f"{INDENT}{command}\n")


def _check(story: _Story, directory: Path) -> list[str]:
    return ["verify", story.session_id, "--data-dir", str(directory)]


def _layby() -> str:
    """How a shell reaches this program: by name, or else by where it was installed."""
    return "layby" if shutil.which("layby") else str(Path(sys.executable).with_name("layby"))


def _verify(story: _Story, directory: Path, past_redis: Sequence[str]) -> None:
    """The same check that an auditor would run, beside the server."""
    from subprocess import run

    command = _check(story, directory)
    _say(f"\n{shlex.join(['layby', *command])}", bold=True)
    if run([*past_redis, sys.executable, "-P", "-c", _MAIN, *command]).returncode:
        raise Trouble("the log of the demo's session is not sound")


def _tell(event: dict[str, Any]) -> None:
    """One event as one line of the terminal; what the service adds by itself is paler."""
    kind, own = event["type"], event["by"] != "layby"
    words = _WORDS.get(kind, lambda _: "")(event)
    room = shutil.get_terminal_size().columns - 1
    line = f"{event['seq']:>3}  {event['time'][11:19]}  {kind:<17}  {words}".rstrip()
    _say(line if len(line) <= room else line[: room - 1] + "…", dim=not own, bold=kind == "input.completed")


def _call(data: dict[str, Any]) -> str:
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in data["tool_args"].items())
    return f"{data['tool_name']}({arguments})"


def _decision(event: dict[str, Any]) -> str:
    decision = event["data"]["decision"]
    edited = decision["edited_args"]
    changes = "" if edited is None else ", with " + json.dumps(edited)
    return f"{decision['action']}, by {decision['by']}{changes}"


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "session.started": lambda event: f"agent {event['data']['agent']}",
    "message.received": lambda event: event["data"]["text"],
    "message.completed": lambda event: event["data"]["text"],
    "actions.requested": lambda event: _call(event["data"]["actions"][0]),
    "input.requested": lambda event: event["data"]["message"] + f" (until {event['data']['expires_at'][11:16]} UTC)",
    "step.interrupted": lambda event: f"waits for {event['data']['interrupt_kind']}",
    "session.waiting": lambda event: event["data"]["reason"],
    "input.completed": _decision,
    "input.expired": lambda _: "nobody decided in time",
    "action.claimed": lambda event: f"attempt {event['data']['attempt']}, by {event['data']['owner']}",
    "action.result": lambda event: json.dumps(event["data"]["result"]),
}


def _say(text: str, **style: bool) -> None:
    click.secho(text, **style)  # pyright: ignore[reportArgumentType]  # bold and dim
    sys.stdout.flush()


def _post(url: str, body: Any, actor: str | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **({"Layby-Actor": actor} if actor else {})}
    return json.loads(b"".join(_request(url, json.dumps(body).encode(), headers)))


def _stream(url: str) -> Iterator[bytes]:
    return _request(url, None, {})


def _request(url: str, body: bytes | None, headers: dict[str, str]) -> Iterator[bytes]:
    """The lines of an answer, as they come. Raises `Trouble` for any refusal."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(Request(url, body, headers)) as answer:
            yield from answer
    except HTTPError as error:
        with error:
            raise Trouble(json.loads(error.read())["detail"]) from None
    except (OSError, HTTPException) as error:
        raise Trouble(f"the demo's server has ended ({error})") from None
