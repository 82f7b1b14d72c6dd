"""The words of the demo: each event as one line of the terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from typing import Any

import click

INDENT = "  "


def say(text: str, **style: bool) -> None:
    """A line that is there at once."""
    click.secho(text, **style)  # pyright: ignore[reportArgumentType]  # bold and dim
    sys.stdout.flush()


def tell(event: dict[str, Any]) -> None:
    """One event as one line of the terminal; what the service adds by itself is paler."""
    kind, own = event["type"], event["by"] != "layby"
    words = _WORDS.get(kind, lambda _: "")(event)
    room = shutil.get_terminal_size().columns - 1
    line = f"{event['seq']:>3}  {event['time'][11:19]}  {kind:<17}  {words}".rstrip()
    say(line if len(line) <= room else line[: room - 1] + "…", dim=not own, bold=kind == "input.completed")


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
