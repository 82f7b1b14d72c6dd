"""Finding the route of a request by walking its path, in a time that does not grow with the number of routes.

A path is split as it was sent and decoded part by part, so that an encoded slash stays inside its part.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from api.http.query_parameters import refuse_unknown
from eventstore.domain.errors import InvalidRequest, MethodNotAllowed, NotFound

Endpoint = Callable[[Request], Awaitable[Response]]
_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(slots=True)
class _Target:
    endpoint: Endpoint
    pattern: str
    names: list[str]
    query: frozenset[str] | None


@dataclass(slots=True)
class _Node:
    """A place in a path: what may follow by name, what follows whatever it is called, and what may be done here."""

    named: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    other: _Node | None = None
    targets: dict[str, _Target] = field(default_factory=dict[str, _Target])


class Router:
    """An ASGI application that hands each request to the endpoint of its route."""

    def __init__(self, routes: Iterable[BaseRoute], query: Mapping[str, frozenset[str]] | None = None) -> None:
        """`query` names the parameters of each path, with `METHOD path` as its key; what is not in it takes any."""
        self._root: _Node = _Node()
        self._query: Mapping[str, frozenset[str]] = query or {}
        for route in routes:
            self._add(route, "")

    def _add(self, route: BaseRoute, prefix: str) -> None:
        if isinstance(route, Mount):
            for inner in route.routes:
                self._add(inner, prefix + route.path)
            return
        if not isinstance(route, Route):
            raise TypeError(f"{type(route).__name__} is no kind of route that is served here")
        pattern, node = prefix + route.path, self._root
        for part in pattern.split("/")[1:]:
            if _PARAMETER.fullmatch(part):
                node.other = node = node.other or _Node()
            else:
                node = node.named.setdefault(part, _Node())
        for method in route.methods or ():
            known = self._query.get(f"{'GET' if method == 'HEAD' else method} {pattern}")
            node.targets[method] = _Target(route.endpoint, pattern, _PARAMETER.findall(pattern), known)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        node, values = self._find(scope)
        target = node.targets.get(scope["method"])
        if target is None:
            raise _no_such_method(scope["method"], node)
        scope["route"] = target.pattern
        scope["path_params"] = dict(zip(target.names, map(_decoded, target.names, values), strict=True))
        if scope["query_string"] and target.query is not None:
            refuse_unknown(scope["query_string"], target.query)
        response = await target.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[_Node, list[bytes]]:
        node, values = self._root, list[bytes]()
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
