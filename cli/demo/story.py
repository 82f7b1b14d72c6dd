"""One session from its beginning to its end, with a decision in the middle."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from cli.common import Trouble
from cli.demo.http import post, stream
from cli.demo.telling import tell

CALL = "refund"
WORKER = "demo-worker"
ASKED = {"order": 1042, "amount": 49.9}


class Story:
    """One session, told as its events come in."""

    def __init__(self, url: str, step_s: float) -> None:
        """`step_s`: seconds between two steps, so that they can be read as they happen."""
        self.step_s: float = step_s
        self.session_id: str = f"demo-{secrets.token_hex(3)}"
        self.url: str = f"{url}/v1/sessions/{self.session_id}"
        self._sessions: str = f"{url}/v1/sessions"
        self.parked_at: int = 0
        self._lines: Iterator[bytes] = iter(())

    @property
    def decision_url(self) -> str:
        return f"{self.url}/calls/{CALL}/decision"

    def begin(self, **body: Any) -> None:
        made = post(self._sessions, {"session_id": self.session_id, **body})
        self._lines = stream(f"{self.url}/stream")
        self._until(lambda event: event["seq"] >= made["seq"])

    def publish(self, *events: dict[str, Any]) -> None:
        answer = post(f"{self.url}/events", list(events))
        self._until(lambda event: event["seq"] >= answer["last_seq"])

    def act(self, verb: str, body: dict[str, Any], event: str) -> dict[str, Any]:
        """Move the call on, and tell of the event that comes of it."""
        answer = post(f"{self.url}/calls/{CALL}/{verb}", body)
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
                tell(event)
                if event["type"] == "session.waiting" and event["data"]["parked"]:
                    self.parked_at = event["seq"]
                if reached(event):
                    time.sleep(self.step_s)
                    return event


def play(story: Story, decide: Callable[[Story], None]) -> None:
    story.begin(agent="support", message="Order 1042 came broken. I want my money back.")
    story.publish({"type": "turn.started"}, _says("I'll refund order 1042."))
    story.publish(_event("actions.requested", actions=[{"tool_name": "refund_order", "tool_args": ASKED}]))
    asks = {"tool_name": "refund_order", "tool_args": ASKED, "allow_edits": True, "message": "Refund order 1042?"}
    story.publish(_event("input.requested", interrupt_id=CALL, expires_in_ms=3_600_000, **asks))
    decide(story)
    decision = story.decided()["data"].get("decision")
    if decision and decision["action"] == "approve":
        claim = story.act("claim", {"owner": WORKER}, "action.claimed")
        time.sleep(story.step_s)  # here the tool would run
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
