"""The HTTP application of one server: the table of its endpoints, and what serves them."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from starlette.types import ASGIApp

from api.http.router import Route, Router
from api.middleware.error_boundary import ErrorBoundary
from api.middleware.origin_check import OriginCheck
from api.openapi.document import document
from api.publish_line import route as line
from api.requests.bodies import encode
from api.requests.endpoint import Endpoint, answer
from api.routes import calls, events, health, publish, session_stream, sessions, tenant_stream
from api.services import Services
from api.zhin import routes as zhin


@cache
def _document() -> bytes:
    return encode(document(ENDPOINTS))


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *sessions.ENDPOINTS,
    *publish.ENDPOINTS,
    *line.ENDPOINTS,
    *events.ENDPOINTS,
    *session_stream.ENDPOINTS,
    *tenant_stream.ENDPOINTS,
    *calls.ENDPOINTS,
    *health.ENDPOINTS,
    health.description(_document),
    *zhin.ENDPOINTS,
)
"""In the order in which the document has them."""


def build(services: Services) -> ASGIApp:
    router = Router(_route(services, endpoint) for endpoint in ENDPOINTS)
    return ErrorBoundary(OriginCheck(router, services.door, services.settings.host), services.metrics, services.budget)


def _route(services: Services, endpoint: Endpoint) -> Route:
    answering = partial(answer, services, endpoint)
    guarded = endpoint.guard(answering) if endpoint.guard else answering
    return Route(endpoint.method, endpoint.path, guarded, endpoint.query_names)
