"""The OpenAPI 3.1 document: a pure function of the table of endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from api.http.json_schema import Node
from api.openapi.operations import paths
from api.openapi.parameter_components import headers, parameters
from api.openapi.schemas import schemas
from api.requests.endpoint import Endpoint
from eventstore.domain.api_keys import SCOPES

_DESCRIPTION = """\
The durable session log and decision point for AI agents.

JSON, snake_case, UTF-8; times are RFC 3339 UTC with milliseconds. Unknown request fields are refused, and
`null` means absent, except for `response` and `result`. Every answer has `Layby-Request-Id`.

A path that is no route here answers 404 `not-found`, a method that a route does not have 405
`method-not-allowed` with `Allow`. What each problem means is told at <https://layby.dev/problems/>.

A request needs a key, `Authorization: Bearer <key>`, that has the scope of its route. It is judged before the body,
and before anything is looked up. It belongs to a tenant: what other tenants have does not exist for it. Only a store
that never had a key is open to everyone, on loopback alone.
"""

_TAGS = {
    "sessions": "Create, read, list and delete sessions.",
    "events": "Publish events, read them, follow them.",
    "calls": "Decide on calls, and execute what was approved.",
    "zhin": "The routes of Zhin's session host, for its console.",
    "service": "Health, metrics, and this document.",
}


def document(endpoints: Sequence[Endpoint]) -> Node:
    """The whole document, as JSON."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Layby",
            "version": "1",
            "summary": "HTTP protocol, version 1",
            "description": _DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": told} for name, told in _TAGS.items()],
        "paths": paths(endpoints),
        "components": {
            "schemas": schemas(),
            "parameters": parameters(),
            "headers": headers(),
            "securitySchemes": {"bearer": _bearer()},
        },
    }


def _bearer() -> Node:
    return {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `layby keys create`, with the scopes that are listed where it is needed: "
        + ", ".join(f"`{scope}`" for scope in SCOPES)
        + ". Not needed as long as the store never had a key.",
    }
