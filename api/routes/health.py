"""The service itself: alive, ready, measured, described."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from api.http.json_schema import any_object, text
from api.requests.bodies import encode, json_answer
from api.requests.descriptions import gives, json_content, reply
from api.requests.endpoint import Endpoint, Operation, Received
from api.services import Services
from eventstore.domain.api_keys import ANY
from eventstore.domain.errors import Overloaded, StoreFull, StoreUnavailable
from eventstore.domain.values import timestamps
from eventstore.feed.divergence import Divergence


async def healthz(services: Services, received: Received) -> Response:
    return json_answer(b'{"status":"ok"}')


async def readyz(services: Services, received: Received) -> Response:
    """Only a write shows that the store takes writes. What it has lost is no reason to send traffic elsewhere, but
    is told; no more than that, since this needs no key: `layby verify` tells the rest."""
    diverged = [_shown(loss) for loss in await services.store.check_writable()]
    lag = services.read_models.lag()
    return json_answer(encode({"status": "ready", "projectors": lag, "diverged": diverged}))


def _shown(loss: Divergence) -> dict[str, Any]:
    return {"partition": loss.partition, "since": timestamps.text(loss.noticed)}


async def metrics(services: Services, received: Received) -> Response:
    return Response(services.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def openapi(services: Services, received: Received, *, document: Callable[[], bytes]) -> Response:
    return json_answer(document())


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/healthz",
        healthz,
        Operation("health", "service", "Whether the process is alive"),
        scope=None,
        answers={200: gives("Health", "Alive.")},
    ),
    Endpoint(
        "GET",
        "/readyz",
        readyz,
        Operation("readiness", "service", "Whether the store can be reached and written to"),
        scope=None,
        answers={200: gives("Readiness", "Ready.")},
        problems=(StoreUnavailable, Overloaded, StoreFull),
    ),
    Endpoint(
        "GET",
        "/metrics",
        metrics,
        Operation("metrics", "service", "Metrics for Prometheus"),
        scope=ANY,
        answers={200: reply("Metrics.", {"text/plain": {"schema": text("In the Prometheus text format.")}})},
    ),
)


def description(document: Callable[[], bytes]) -> Endpoint:
    """The route of the OpenAPI document, which is made of all routes: so it is handed in, as what gives its bytes."""
    return Endpoint(
        "GET",
        "/openapi.json",
        partial(openapi, document=document),
        Operation("openapi", "service", "This document"),
        scope=ANY,
        answers={200: reply("OpenAPI 3.1.", json_content(any_object()))},
    )
