"""Finding the route of a request by walking its path, in a time that does not grow with the number of routes.

A path is split as it was sent and decoded part by part, so that an encoded slash stays inside its part.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.query_parameters import refuse_unknown
from eventstore.domain.errors import InvalidRequest, MethodNotAllowed, NotFound

Answering = Callable[[Request], Awaitable[Response]]
_PARAMETER = re.compile(r"\{(\w+)\}")


class Route(NamedTuple):
    """What the router knows of a route. `query` are the names that its query may have; None: any."""

    method: str
    path: str
    answer: Answering
    query: frozenset[str] | None = None


def path_names(path: str) -> list[str]:
    """The names of what is filled in."""
    return _PARAMETER.findall(path)


class _Target(NamedTuple):
    route: Route
    names: list[str]


@dataclass(slots=True)
class _Node:
    """A place in a path: what may follow by name, what follows whatever it is called, and what may be done here."""

    named: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    other: _Node | None = None
    targets: dict[str, _Target] = field(default_factory=dict[str, _Target])


class Router:
    """An ASGI application that hands each request to its route. HEAD goes where GET goes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root: _Node = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for part in route.path.split("/")[1:]:
            if _PARAMETER.fullmatch(part):
                node.other = node = node.other or _Node()
            else:
                node = node.named.setdefault(part, _Node())
        for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
            node.targets[method] = _Target(route, path_names(route.path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        node, values = self._find(scope)
        target = node.targets.get(scope["method"])
        if target is None:
            raise _no_such_method(scope["method"], node)
        route, names = target
        scope["route"] = route.path
        scope["path_params"] = dict(zip(names, map(_decoded, names, values), strict=True))
        if scope["query_string"] and route.query is not None:
            refuse_unknown(scope["query_string"], route.query)
        response = await route.answer(Request(scope, receive, send))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[_Node, list[bytes]]:
        node = self._root
        values: list[bytes] = []
        for raw in scope["raw_path"].split(b"/")[1:]:
            part = unquote_to_bytes(raw) if b"%" in raw else raw
            if (named := node.named.get(part.decode("latin-1"))) is not None:
                node = named
            elif node.other is not None and part and b"/" not in part:
                node = node.other
                values.append(part)
            else:
                raise _no_such_route()
        if not node.targets:
            raise _no_such_route()
        return node, values


def _decoded(name: str, value: bytes) -> str:
    """Never with something else in place of what is wrong: that could be the name of another thing."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest.parameter(name, "must be UTF-8, percent-encoded") from None


def _no_such_route() -> NotFound:
    return NotFound("no route has this path; GET /openapi.json lists them all")


def _no_such_method(method: str, node: _Node) -> MethodNotAllowed:
    allow = sorted(node.targets)
    return MethodNotAllowed(f"{method} is not possible here; this route has {', '.join(allow)}", allow)
