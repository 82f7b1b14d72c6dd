"""The HTTP application of one server: every resource's routes, behind one edge."""

from __future__ import annotations

from starlette.types import ASGIApp

from api import calls, events, feed, publish, service, sessions, stream, zhin
from api.edge import Edge
from api.routing import Router
from api.services import Services

RESOURCES = (publish, stream, events, calls, sessions, feed, zhin, service)


def build(services: Services) -> ASGIApp:
    routes = [route for resource in RESOURCES for route in resource.routes(services)]
    return Edge(Router(routes), services.metrics)
