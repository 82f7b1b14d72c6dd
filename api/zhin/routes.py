"""The routes of this mount, in one table, and the one that says that it is there."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from api.requests.descriptions import gives
from api.requests.endpoint import Endpoint, Received
from api.services import Services
from api.zhin import decisions, sessions, stream
from api.zhin.answers import BASE, mounted, ok


async def health(services: Services, received: Received) -> Response:
    return ok(service="zhin-agent-session")


ENDPOINTS: Final = (
    mounted(
        Endpoint(
            method="GET",
            path=f"{BASE}/health",
            handler=health,
            name="zhinHealth",
            summary="Whether the mount is there",
            tag="zhin",
            scope=None,
            answers={200: gives("ZhinHealth", "It is.")},
        )
    ),
    *sessions.ENDPOINTS,
    *stream.ENDPOINTS,
    *decisions.ENDPOINTS,
)
