"""The routes of Zhin's HTTP session host, for its console client: the same words, over sessions of Layby.

`docs/zhin.md` tells users of it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.services import Services
from api.zhin import decisions, sessions, stream
from api.zhin.answers import guarded, ok

BASE = "/zhin/v1"


def routes(services: Services) -> list[BaseRoute]:
    async def health(_: Request) -> Response:
        return ok(service="zhin-agent-session")

    talk, decide = sessions.Sessions(services), decisions.Decisions(services)
    one, authorization = f"{BASE}/session/{{id}}", f"{BASE}/authorization/{{requestId}}/complete"
    complete = guarded(decide.complete, decisions.AUTHORIZATION_CODES)
    return [
        Route(f"{BASE}/health", guarded(health), methods=["GET"]),
        Route(f"{BASE}/session", guarded(talk.start), methods=["POST"]),
        Route(one, guarded(talk.send), methods=["POST"]),
        Route(f"{one}/stream", guarded(stream.endpoint(services)), methods=["GET"]),
        Route(f"{one}/input", guarded(decide.input), methods=["POST"]),
        Route(authorization, complete, methods=["POST"]),
    ]
