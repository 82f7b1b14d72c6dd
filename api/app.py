"""The HTTP application of one server: every resource's routes, behind one edge."""

from __future__ import annotations

from starlette.types import ASGIApp

from api import calls, events, feed, line, publish, service, sessions, stream, zhin
from api.edge import Edge
from api.openapi import query_names
from api.origin import OpenDoor
from api.routing import Router
from api.services import Services

RESOURCES = (publish, line, stream, events, calls, sessions, feed, zhin, service)


def build(services: Services) -> ASGIApp:
    routes = [route for resource in RESOURCES for route in resource.routes(services)]
    inner = OpenDoor(Router(routes, query_names()), services.door, services.settings.host)
    return Edge(inner, services.metrics, services.budget)
