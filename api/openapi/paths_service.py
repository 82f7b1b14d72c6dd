"""Routes of the service itself."""

from __future__ import annotations

from api.openapi.build import Node, any_object, json_content, text
from api.openapi.routes import Route, gives, reply
from eventstore.domain.api_keys import ANY

TAG = "service"


def service_routes() -> list[Route]:
    metrics: Node = {"text/plain": {"schema": text("In the Prometheus text format.")}}
    return [
        _get("/healthz", "health", "Whether the process is alive", None, gives("Health", "Alive.")),
        _get(
            "/readyz",
            "readiness",
            "Whether the store can be reached and written to",
            None,
            gives("Readiness", "Ready."),
            "store-unavailable",
            "overloaded",
            "store-full",
        ),
        _get("/metrics", "metrics", "Metrics for Prometheus", ANY, reply("Metrics.", metrics)),
        _get(
            "/openapi.json",
            "openapi",
            "This document",
            ANY,
            reply("OpenAPI 3.1.", json_content(any_object())),
        ),
    ]


def _get(path: str, name: str, summary: str, scope: str | None, answer: Node, *problems: str) -> Route:
    return Route(
        method="get",
        path=path,
        name=name,
        summary=summary,
        tag=TAG,
        scope=scope,
        answers={200: answer},
        problems=problems,
    )
