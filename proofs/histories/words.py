"""From what a server answers to what the checkers compare."""

from __future__ import annotations

import json
from typing import Any

from proofs.client import Answer
from proofs.histories.call import Decision, Heard, View


def plain(value: Any) -> str:
    """A JSON value as a text that is the same for the same value."""
    return json.dumps(value, sort_keys=True)


def heard(answer: Answer) -> Heard:
    """What a request that acts on a call was told."""
    body = answer.json()
    if answer.status >= 400:
        shown = body.get("call")
        return Heard(answer.problem, view=shown and view(shown, "call"))
    if "events" in body:
        return _asked(body)
    if "attempt" in body:
        shown = view(body["call"], "call")
        return Heard("granted", attempt=body["attempt"], until=body["lease_until"], view=shown)
    return Heard(body["outcome"], seq=body["seq"], view=view(body["call"], "call"))


def _asked(body: dict[str, Any]) -> Heard:
    first = body["events"][0]
    if body["duplicate"]:
        return Heard("duplicate", seq=first["seq"], view=View("ask", first["status"]))
    return Heard("applied", seq=first["seq"])


def looked(answer: Answer, how: str, interrupt_id: str) -> Heard:
    """What a reader was shown of a call, on one of the pages that show it."""
    if answer.status != 200:
        return Heard(answer.problem)
    body = answer.json()
    if how == "call":
        return Heard("shown", view=view(body, how))
    if how == "document":
        call = body["pending_tool_call"]
        return Heard("shown", view=View(how, call["status"], _decision(call), None, plain(call["result"])))
    found = next((call for call in body["calls"] if call["interrupt_id"] == interrupt_id), None)
    if how == "inbox":
        return Heard("shown", view=View(how, found["status"] if found else ""))
    return Heard("shown", view=view(found, how)) if found else Heard("call-not-found")


def view(call: dict[str, Any], how: str) -> View:
    """A call as it is shown, without what never changes."""
    shown, execution = call["execution"], None
    if shown:
        until = shown["lease_until"] if shown["state"] == "claimed" else None
        execution = shown["state"], shown["attempt"], shown["owner"], until
    return View(how, call["status"], _decision(call), execution, plain(call["result"]), call["is_error"])


def _decision(call: dict[str, Any]) -> Decision | None:
    made = call["decision"]
    if made is None:
        return None
    texts = plain(made["edited_args"]), plain(made["response"])
    return Decision(made["action"], made["by"], made["note"], *texts)
