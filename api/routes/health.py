"""The service itself: alive, ready, measured, described."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.openapi import document
from api.requests.bodies import encode, json_answer
from api.services import Services
from eventstore.domain.api_keys import ANY
from eventstore.domain.values import timestamps
from eventstore.feed.divergence import Divergence


def routes(services: Services) -> list[BaseRoute]:
    described = list[bytes]()

    async def healthz(_: Request) -> Response:
        return json_answer(b'{"status":"ok"}')

    async def readyz(_: Request) -> Response:
        """Only a write shows that the store takes writes. What it has lost is no reason to send traffic elsewhere, but
        is told; no more than that, since this needs no key: `layby verify` tells the rest."""
        diverged = [_shown(loss) for loss in await services.store.check_writable()]
        lag = services.read_models.lag()
        return json_answer(encode({"status": "ready", "projectors": lag, "diverged": diverged}))

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


def _shown(loss: Divergence) -> dict[str, Any]:
    return {"partition": loss.partition, "since": timestamps.text(loss.noticed)}
