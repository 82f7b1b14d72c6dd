"""The HTTP application of one server: every resource's routes, behind one edge."""

from __future__ import annotations

from starlette.types import ASGIApp

from api import zhin
from api.http.router import Router
from api.middleware.error_boundary import Edge
from api.middleware.origin_check import OpenDoor
from api.openapi import query_names
from api.publish_line import route as line
from api.routes import calls, events, health, publish, session_stream, sessions, tenant_stream
from api.services import Services

RESOURCES = (publish, line, session_stream, events, calls, sessions, tenant_stream, zhin, health)


def build(services: Services) -> ASGIApp:
    routes = [route for resource in RESOURCES for route in resource.routes(services)]
    inner = OpenDoor(Router(routes, query_names()), services.door, services.settings.host)
    return Edge(inner, services.metrics, services.budget)
