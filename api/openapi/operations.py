"""From a declared endpoint to an OpenAPI operation, with every answer that it can give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from api.http.authentication import LAYBY_ACTOR
from api.http.headers import IDEMPOTENCY_KEY
from api.http.json_schema import Node
from api.http.problems import STATUS, WRONG_ADDRESS
from api.openapi.schemas_problems import statuses
from api.requests.descriptions import answer_header, problem_content, refuses
from api.requests.endpoint import Endpoint, Problem
from eventstore.domain.errors import InvalidRequest

WRONG_BODY: Final = STATUS[InvalidRequest.slug]


def paths(endpoints: Iterable[Endpoint]) -> Node:
    """Every path, with the operations of its methods."""
    found: dict[str, Node] = defaultdict(dict)
    for endpoint in endpoints:
        found[endpoint.path][endpoint.method.lower()] = _operation(endpoint)
    return dict(found)


def parameter_keys(endpoint: Endpoint) -> list[str]:
    """Of everything that may be said outside the body: the path, the query, headers."""
    retry = (IDEMPOTENCY_KEY, LAYBY_ACTOR) if endpoint.body else ()
    return [*endpoint.path_names, *(parameter.key for parameter in (*endpoint.query, *endpoint.headers, *retry))]


def _operation(endpoint: Endpoint) -> Node:
    said = endpoint.operation
    scope = f"Scope `{endpoint.scope}`." if endpoint.scope else ""
    node: Node = {
        "operationId": said.id,
        "summary": said.summary,
        "description": " ".join(filter(None, (said.description, scope))),
        "tags": [said.tag],
        "security": _security(endpoint.scope),
        "parameters": [{"$ref": f"#/components/parameters/{key}"} for key in parameter_keys(endpoint)],
        "responses": _responses(endpoint),
    }
    if endpoint.body:
        node["requestBody"] = {"required": True, "content": dict(endpoint.body.content)}
    return node


def _security(scope: str | None) -> list[Node]:
    """A key, or none at all: a store that never had one needs none."""
    return [] if scope is None else [{"bearer": [scope] if scope else []}, {}]


def _responses(endpoint: Endpoint) -> Node:
    answers = {status: _replayed(endpoint, status, node) for status, node in endpoint.answers.items()}
    if endpoint.guard is None:
        answers |= _problem_replies(endpoint)
    return {str(status): answers[status] for status in sorted(answers)}


def _replayed(endpoint: Endpoint, status: int, node: Node) -> Node:
    """What succeeds may be the repetition of an earlier answer."""
    if endpoint.body is None or status >= 300:
        return node
    return {**node, "headers": {**node["headers"], "Idempotency-Replayed": answer_header("Idempotency-Replayed")}}


def _problem_replies(endpoint: Endpoint) -> dict[int, Node]:
    """One reply a status, which lists the problems that share it."""
    by_status: dict[int, list[Problem]] = defaultdict(list)
    for problem in endpoint.all_problems:
        for status in statuses(problem):
            by_status[status].append(problem)
    if not parameter_keys(endpoint):
        by_status.pop(WRONG_ADDRESS, None)
    if not endpoint.body and InvalidRequest in by_status[WRONG_BODY]:
        by_status[WRONG_BODY].remove(InvalidRequest)
    return {status: _problem_reply(status, found) for status, found in by_status.items() if found}


def _problem_reply(status: int, problems: list[Problem]) -> Node:
    description = "\n".join(f"* `{problem.slug}`: {problem.title}." for problem in problems)
    return refuses(status, description, problem_content(*problems))
