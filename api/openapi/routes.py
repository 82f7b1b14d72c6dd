"""A route, and how it becomes an OpenAPI operation with every answer that it can give."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from api.http.problems import MEDIA_TYPE, STATUS, WRONG_ADDRESS
from api.openapi.build import Node, header, json_content, ref
from api.openapi.schemas_problems import problem_name, statuses
from eventstore.domain.errors import leaves

WRONG_BODY = STATUS["invalid-request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`answers` and `problems` list what is its own; what its shape implies is added by `operation`."""

    method: str
    path: str
    name: str
    summary: str
    tag: str
    scope: str | None
    answers: Mapping[int, Node]
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Node] = field(default_factory=dict[str, Node])
    body_required: bool = True
    problems: tuple[str, ...] = ()
    problem_form: bool = True
    description: str = ""

    @property
    def path_parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    @property
    def all_parameters(self) -> list[str]:
        retry = ["Idempotency-Key", "Layby-Actor"] if self.method == "post" else []
        return [*self.path_parameters, *self.parameters, *retry]


def reply(description: str, content: Node | None = None, *headers: str) -> Node:
    """One answer, which carries the request's id as all do."""
    told = {name: header(name) for name in ("Layby-Request-Id", *headers)}
    node: Node = {"description": description, "headers": told}
    return {**node, "content": content} if content else node


def gives(schema: str, description: str, *headers: str) -> Node:
    return reply(description, json_content(ref(schema)), *headers)


def operation(route: Route) -> Node:
    node: Node = {
        "operationId": route.name,
        "summary": route.summary,
        "description": _description(route),
        "tags": [route.tag],
        "security": _security(route.scope),
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in route.all_parameters],
        "responses": _responses(route),
    }
    if route.body:
        node["requestBody"] = {"required": route.body_required, "content": dict(route.body)}
    return node


def _description(route: Route) -> str:
    scope = f"Scope `{route.scope}`." if route.scope else ""
    return " ".join(part for part in (route.description, scope) if part)


def _security(scope: str | None) -> list[Node]:
    """A key, or none at all: a store that never had one needs none."""
    return [] if scope is None else [{"bearer": [scope] if scope else []}, {}]


def _responses(route: Route) -> Node:
    answers = {status: _replayed(route, status, node) for status, node in route.answers.items()}
    if route.problem_form:
        answers |= _problem_replies(route)
    return {str(status): answers[status] for status in sorted(answers)}


def _replayed(route: Route, status: int, node: Node) -> Node:
    if route.method != "post" or status >= 300:
        return node
    return {**node, "headers": {**node["headers"], "Idempotency-Replayed": header("Idempotency-Replayed")}}


def _problems(route: Route) -> list[str]:
    """Those of the route, and those that come with its shape."""
    found = ["internal-error", "untrusted-origin", *route.problems]
    if route.all_parameters or route.body:
        found.append("invalid-request")
    if route.scope is not None:
        found += ["unauthorized", "missing-scope", "store-unavailable", "overloaded"]
    if route.scope:
        found.append("store-full")
    if "session_id" in route.path_parameters:
        found += ["session-not-found", "session-deleted"]
    if "interrupt_id" in route.path_parameters:
        found.append("call-not-found")
    if route.method == "post":
        found += ["too-large", "request-timeout", "idempotency-key-reused", "request-in-progress"]
    return found


def _problem_replies(route: Route) -> dict[int, Node]:
    """One reply a status, which lists the problems that share it."""
    by_status: dict[int, list[str]] = defaultdict(list)
    for slug in dict.fromkeys(_problems(route)):
        for status in statuses(slug):
            by_status[status].append(slug)
    if not route.all_parameters:
        by_status.pop(WRONG_ADDRESS, None)
    if not route.body and "invalid-request" in by_status[WRONG_BODY]:
        by_status[WRONG_BODY].remove("invalid-request")
    return {status: _problem_reply(status, found) for status, found in by_status.items() if found}


def _problem_reply(status: int, slugs: list[str]) -> Node:
    titles = {error.slug: error.title for error in leaves()}
    refs = [ref(problem_name(slug)) for slug in slugs]
    description = "\n".join(f"* `{slug}`: {titles[slug]}." for slug in slugs)
    content = {MEDIA_TYPE: {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}
    return reply(description, content, *_PROBLEM_HEADERS.get(status, ()))


_PROBLEM_HEADERS = {401: ("WWW-Authenticate",), 403: ("WWW-Authenticate",), 426: ("Upgrade",), 503: ("Retry-After",)}


def paths(routes: Iterable[Route]) -> Node:
    found: dict[str, Node] = defaultdict(dict)
    for route in routes:
        found[route.path][route.method] = operation(route)
    return dict(found)
