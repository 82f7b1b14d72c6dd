"""The service itself: alive, ready, measured, described."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.openapi import document
from api.services import Services
from api.wire import encode, json_answer
from eventstore.domain.access import ANY
from eventstore.keys import STORE


def routes(services: Services) -> list[BaseRoute]:
    described = list[bytes]()

    async def healthz(_: Request) -> Response:
        return json_answer(b'{"status":"ok"}')

    async def readyz(_: Request) -> Response:
        """Only a write shows that the store takes writes."""
        store = services.store
        await store.connection.command("HSET", STORE, "checked_at", store.clock.now() if store.clock.known else 0)
        return json_answer(encode({"status": "ready", "projectors": services.read_models.lag()}))

    async def metrics(request: Request) -> Response:
        services.door.enter(request, ANY)
        return Response(services.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def openapi(request: Request) -> Response:
        services.door.enter(request, ANY)
        if not described:
            described.append(encode(document()))
        return json_answer(described[0])

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
    ]
