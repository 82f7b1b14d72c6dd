"""The routes of this mount, in one table, and the one that says that it is there."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from api.requests.descriptions import gives
from api.requests.endpoint import Endpoint, Operation, Received
from api.services import Services
from api.zhin import decisions, sessions, stream
from api.zhin.answers import BASE, mounted, ok


async def health(services: Services, received: Received) -> Response:
    return ok(service="zhin-agent-session")


HEALTH: Final = Endpoint(
    "GET",
    f"{BASE}/health",
    health,
    Operation("zhinHealth", "zhin", "Whether the mount is there"),
    scope=None,
    answers={200: gives("ZhinHealth", "It is.")},
)
ENDPOINTS: Final = (
    *map(mounted, (HEALTH, sessions.START, sessions.CONTINUE, stream.STREAM, decisions.INPUT)),
    mounted(decisions.AUTHORIZATION, decisions.AUTHORIZATION_CODES),
)
