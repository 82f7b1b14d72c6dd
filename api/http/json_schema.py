"""Functions that write JSON Schemas, so that those of parameters, bodies and answers read as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Node = dict[str, Any]
"""A piece of the OpenAPI document: plain JSON."""


def ref(name: str) -> Node:
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "", **more: Any) -> Node:
    return described({"type": "string", **more}, description)


def integer(description: str = "", **more: Any) -> Node:
    return described({"type": "integer", **more}, description)


def flag(description: str = "", **more: Any) -> Node:
    return described({"type": "boolean", **more}, description)


def words(*values: str, **more: Any) -> Node:
    return {"type": "string", "enum": list(values), **more}


def time(description: str = "") -> Node:
    return text(description, format="date-time", examples=["2026-11-29T12:00:00.123Z"])


def any_json(description: str) -> Node:
    return {"description": description}


def any_object(description: str = "", **more: Any) -> Node:
    return described({"type": "object", "additionalProperties": True, **more}, description)


def many(items: Node, description: str = "", **more: Any) -> Node:
    return described({"type": "array", "items": items, **more}, description)


def described(node: Node, description: str) -> Node:
    return {**node, "description": description} if description else node


def nullable(node: Node) -> Node:
    """The same, or null."""
    if node.keys() <= {"description"} or node == {"const": None}:  # null is among it already
        return node
    if isinstance(node.get("type"), str) and "enum" not in node and "const" not in node:
        return {**node, "type": [node["type"], "null"]}
    if "description" in node:
        bare = {name: value for name, value in node.items() if name != "description"}
        return {"description": node["description"], "anyOf": [bare, {"type": "null"}]}
    return {"anyOf": [node, {"type": "null"}]}


def answer(fields: Mapping[str, Node], optional: Mapping[str, Node] | None = None, description: str = "") -> Node:
    """An object that we send. Open: a client must bear members that it does not know."""
    node = {"type": "object", "required": list(fields), "properties": {**fields, **(optional or {})}}
    return described(node, description)


def request(
    required: Mapping[str, Node],
    optional: Mapping[str, Node] | None = None,
    description: str = "",
    *,
    null_counts: Iterable[str] = (),
) -> Node:
    """An object that we are sent. Closed; a null in an optional field means that it is absent."""
    counted = set(null_counts)
    rest = {k: node if k in counted else nullable(node) for k, node in (optional or {}).items()}
    node = {
        "type": "object",
        "required": list(required),
        "properties": {**required, **rest},
        "additionalProperties": False,
    }
    return described(node, description)
