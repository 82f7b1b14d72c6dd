"""The outermost layer: every answer gets an id, every refusal its form, and nothing internal leaves."""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import problems
from api.http.body_budget import BodyBudget
from api.metrics.registry import Metrics
from api.middleware.refusal_pacing import RefusalPacer
from eventstore.domain.errors import InternalError, LaybyError, Overloaded
from eventstore.domain.values.ids import random_text

log = logging.getLogger("layby.http")

UNMATCHED = "unmatched"


class ErrorBoundary:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, budget: BodyBudget) -> None:
        self._app: ASGIApp = app
        self._metrics: Metrics = metrics
        self._budget: BodyBudget = budget
        self._pace: RefusalPacer = RefusalPacer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, send, random_text(80), self._metrics)
        self._metrics.requests.in_flight += 1
        try:
            await self._app(scope, receive, exchange.send)
        except LaybyError as error:
            if isinstance(error, Overloaded) and (delay := self._pace.delay(asyncio.get_running_loop().time())):
                await asyncio.sleep(delay)
            await exchange.refuse(error, receive)
        except ClientDisconnect:
            pass  # there is nobody left to answer
        except Exception:
            log.exception("request %s failed: %s %s", exchange.request_id, scope["method"], exchange.path)
            await exchange.refuse(InternalError(), receive)
        finally:
            self._budget.release(scope)
            self._metrics.requests.in_flight -= 1


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, send: Send, request_id: str, metrics: Metrics) -> None:
        self.request_id: str = request_id
        self._scope: Scope = scope
        self._send: Send = send
        self._metrics: Metrics = metrics
        self._began: float = time.perf_counter()
        self._started: bool = False

    @property
    def path(self) -> str:
        return self._scope["raw_path"].decode("latin-1")

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            message["headers"] = [*message.get("headers", ()), (b"layby-request-id", self.request_id.encode())]
            route = self._scope.get("route", UNMATCHED)
            seconds = time.perf_counter() - self._began
            self._metrics.requests.answered(self._scope["method"], route, message["status"], (seconds,))
        await self._send(message)

    async def refuse(self, error: LaybyError, receive: Receive) -> None:
        """Answer with a problem; an answer that has begun can only break off."""
        if not self._started:
            await self._rendered(error)(self._scope, receive, self.send)

    def _rendered(self, error: LaybyError) -> Response:
        try:
            return problems.render(error, self.path)
        except Exception:
            log.exception("request %s failed: %s %s", self.request_id, self._scope["method"], self.path)
            return problems.render(InternalError(), self.path)
