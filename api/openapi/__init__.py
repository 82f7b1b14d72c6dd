"""The OpenAPI 3.1 document: every route, body, answer and problem. One file a part of the protocol."""

from __future__ import annotations

from api.openapi.build import Node
from api.openapi.parameters import headers, parameters
from api.openapi.paths_calls import call_routes
from api.openapi.paths_service import service_routes
from api.openapi.paths_sessions import session_routes
from api.openapi.paths_streams import stream_routes
from api.openapi.paths_zhin import zhin_routes
from api.openapi.routes import Route, paths
from api.openapi.schemas import schemas
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


def document() -> Node:
    """The whole document, as JSON."""
    routes = [*_own_routes(), *zhin_routes()]
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
        "paths": paths(routes),
        "components": {
            "schemas": schemas(),
            "parameters": parameters(),
            "headers": headers(),
            "securitySchemes": {"bearer": _bearer()},
        },
    }


def query_names() -> dict[str, frozenset[str]]:
    """The query parameters of each route but those of the Zhin mount, whose model passes over what it does not know."""
    known = parameters()
    return {
        f"{route.method.upper()} {route.path}": frozenset(
            known[name]["name"] for name in route.all_parameters if known[name]["in"] == "query"
        )
        for route in _own_routes()
    }


def _own_routes() -> list[Route]:
    return [*session_routes(), *stream_routes(), *call_routes(), *service_routes()]


def _bearer() -> Node:
    return {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `layby keys create`, with the scopes that are listed where it is needed: "
        + ", ".join(f"`{scope}`" for scope in SCOPES)
        + ". Not needed as long as the store never had a key.",
    }
