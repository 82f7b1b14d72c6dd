"""The bodies of the Zhin mount: camelCase, with `ok` in front."""

from __future__ import annotations

from api.http.json_schema import Node, answer, any_object, flag, integer, ref, request, text
from api.zhin.events import TOKEN_PREFIX

_OK: Node = {"const": True}


def zhin_schemas() -> dict[str, Node]:
    session = {"sessionId": text(), "continuationToken": text(pattern=f"^{TOKEN_PREFIX}")}
    return {
        "ZhinHealth": answer({"ok": _OK, "service": {"const": "zhin-agent-session"}}),
        "ZhinRefusal": answer({"ok": {"const": False}, "error": text("What went wrong, in one word.")}),
        "ZhinStart": _body({"message": text(pattern=r"\S")}),
        "ZhinContinue": _body({"continuationToken": text(minLength=1), "message": text(pattern=r"\S")}),
        "ZhinSession": answer({"ok": _OK, **session}),
        "ZhinInput": _body({"requestId": text(minLength=1), "approved": flag()}),
        "ZhinInputTaken": answer({"ok": _OK, "sessionId": text(), "requestId": ref("InterruptId"), "approved": flag()}),
        "ZhinComplete": _body(
            {"success": flag()},
            {"error": text(), "sessionId": text("The newest open one of that id unless given.")},
        ),
        "ZhinCompleted": answer({"ok": _OK, "requestId": ref("InterruptId"), "success": flag()}),
        "ZhinEvent": answer(
            {
                "type": ref("EventType"),
                "data": any_object("In camelCase, for the events that Layby understands."),
                "timestamp": integer("Milliseconds since 1970."),
            }
        ),
    }


def _body(required: dict[str, Node], optional: dict[str, Node] | None = None) -> Node:
    """The model of this mount says nothing of unknown fields, so neither do we."""
    return {k: v for k, v in request(required, optional).items() if k != "additionalProperties"}
