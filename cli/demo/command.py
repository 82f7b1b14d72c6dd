"""`layby demo`: a session that parks until you decide, played on a server of its own."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from cli.common import StrictCommand, Trouble, current_timing, operator_errors, settings_from
from cli.demo.http import post
from cli.demo.server import server
from cli.demo.story import ASKED, Story, play
from cli.demo.telling import INDENT, say


@click.command(cls=StrictCommand)
@click.option("--auto", is_flag=True, help="Decide by itself after a moment, then end.")
@click.option("--port", metavar="PORT", default="0", help="Port of the demo's server. Default: a free one")
@click.option("--data-dir", metavar="DIRECTORY", help="Keep the data here. Default: a temporary directory")
def demo(auto: bool, port: str, data_dir: str | None) -> None:
    """Play a session that parks until you decide, on a server of its own.

    The server and its engine end with the demo. Nothing else on this machine is touched.
    """
    _end_in_order()
    with operator_errors():
        settings = settings_from(port=port, data_dir=data_dir)
    past_redis = () if settings.redis_url is None else ("env", "-u", "LAYBY_REDIS_URL")
    with _directory(data_dir) as directory, server(port, directory) as url:
        say("An agent wants to refund an order, and may not before a person has decided.")
        say(f"\n{INDENT}server  {url}\n{INDENT}data    {directory}\n")
        story = Story(url, current_timing().demo_step_s)
        play(story, _decide_for_you if auto else _ask_you)
        if auto:
            _verify(story, directory, past_redis)
            return
        _tell_what_is_next(story, directory, past_redis)
        try:
            signal.pause()
        except KeyboardInterrupt:
            say("")


def _end_in_order() -> None:
    """Whatever ends it ends it as Ctrl-C does; and once, so that nothing interrupts the clearing up. A signal that is
    ignored, as by nohup, stays so."""
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def end(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)


@contextmanager
def _directory(named: str | None) -> Generator[Path]:
    from tempfile import TemporaryDirectory

    if named is not None:
        yield Path(named)
        return
    with TemporaryDirectory(prefix="layby-demo-") as made:
        yield Path(made)


def _decide_for_you(story: Story) -> None:
    time.sleep(current_timing().demo_decision_s)
    post(story.decision_url, {"action": "approve"}, actor="demo")


def _ask_you(story: Story) -> None:
    edited = json.dumps({"action": "approve", "edited_args": {**ASKED, "amount": 20}}, separators=(",", ":"))
    say("\nThe session is parked. Decide in another terminal:\n")
    for word, body in (
        ("Approve", '{"action":"approve"}'),
        ("Approve other arguments", edited),
        ("Reject", '{"action":"reject","note":"too much"}'),
    ):
        say(f"{word}:", bold=True)
        lines = (f"curl {story.decision_url}", "  -H 'Layby-Actor: anna'", f"  -d '{body}'")
        say(f"{INDENT}" + f" \\\n{INDENT}".join(lines) + "\n")
    say("Waiting for you (Ctrl-C ends the demo) …\n")


def _tell_what_is_next(story: Story, directory: Path, past_redis: Sequence[str]) -> None:
    say("\nThe session is complete. The server runs until you press Ctrl-C. In another\nterminal:\n")
    for what, command in (
        ("Read the log", f"curl {story.url}/events"),
        (f"See the session as of event {story.parked_at}, parked", f"curl '{story.url}?at={story.parked_at}'"),
        ("Check that nobody changed its log", shlex.join([*past_redis, _layby(), *_check(story, directory)])),
    ):
        say(f"{what}:", bold=True)
        say(f"{INDENT}{command}\n")


def _check(story: Story, directory: Path) -> list[str]:
    return ["verify", story.session_id, "--data-dir", str(directory)]


def _layby() -> str:
    """How a shell reaches this program: by name, or else by where it was installed."""
    return "layby" if shutil.which("layby") else str(Path(sys.executable).with_name("layby"))


def _verify(story: Story, directory: Path, past_redis: Sequence[str]) -> None:
    """The same check that an auditor would run, beside the server."""
    from subprocess import run

    command = _check(story, directory)
    say("\nThe check that nobody changed its log, run for you:")
    say(f"{INDENT}{shlex.join(['layby', *command])}", bold=True)
    if run([*past_redis, sys.executable, "-P", "-m", "cli", *command]).returncode:
        raise Trouble("the log of the demo's session is not sound")
