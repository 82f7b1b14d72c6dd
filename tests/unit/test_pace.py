"""How long refusals wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from api.middleware.refusal_pacing import EVERY_S, LONGEST_S, RefusalPacer
from api.requests.endpoint import answer
from api.routes import publish
from eventstore.domain.errors import Overloaded


def test_few_refusals_wait_for_nothing():
    pace = RefusalPacer()
    assert [pace.delay(number * EVERY_S * 1.5) for number in range(5)] == [0.0] * 5


def test_many_at_once_are_spread_and_nobody_waits_for_too_long():
    pace = RefusalPacer()
    delays = [pace.delay(100.0) for _ in range(1_000)]
    assert delays[:3] == pytest.approx([0.0, EVERY_S, 2 * EVERY_S])
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_S
    assert pace.delay(100.0 + LONGEST_S + 2 * EVERY_S) == 0.0, "it is over when they are"


def test_a_server_without_room_reads_no_body():
    def full() -> None:
        raise Overloaded("full")

    async def receive() -> Any:
        raise AssertionError("the body was asked for")

    def enter(request: Request, scope: str) -> Any:
        return None

    door = SimpleNamespace(enter=enter)
    services = SimpleNamespace(door=door, store=SimpleNamespace(check_room=full))
    scope: dict[str, Any] = {"type": "http", "method": "POST", "headers": [], "path": "/", "query_string": b""}
    (endpoint,) = publish.ENDPOINTS
    with pytest.raises(Overloaded):
        asyncio.run(answer(cast(Any, services), endpoint, Request(scope, receive)))
