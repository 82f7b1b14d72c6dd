"""Pages of large documents end by their size, and lose nothing by it."""

from __future__ import annotations

import json

import pytest

from eventstore.event_store import EventStore
from projections.read_models import ReadModels
from tests.integration.models import inbox, names
from tests.integration.stores import TENANT, create, models_of, send
from tests.unit.domain.given import ask

pytestmark = pytest.mark.anyio

LARGE = "x" * 2_000
ROOM = 10_000


@pytest.fixture
async def models(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> ReadModels:
    """Twenty large calls in five sessions, and little room in a page."""
    for module in ("index_pages", "session_lists"):
        monkeypatch.setattr(f"projections.queries.{module}.PAGE_BYTES", ROOM)
    for n in range(20):
        if n < 5:
            await create(store, f"s{n}")
        large = ask(f"c{n}", tool_args={"text": LARGE}, expires_in_ms=60_000 + 1_000 * n)
        await send(store, large, session_id=f"s{n % 5}")
    return models_of(store)


async def test_the_inbox_ends_a_page_of_large_calls_early_and_goes_on_behind_it(models: ReadModels) -> None:
    page = await inbox(models, limit=1_000)
    assert len(json.dumps(page)) < 2 * ROOM
    assert (page["total"], bool(page["next_cursor"])) == (20, True)
    assert await names(models, limit=1_000) == [f"s{n % 5}/c{n}" for n in range(20)]


async def test_a_call_that_is_larger_than_a_page_is_one(models: ReadModels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.queries.index_pages.PAGE_BYTES", 1)
    assert len((await inbox(models, limit=1_000))["calls"]) == 1
    assert await names(models, limit=1_000) == [f"s{n % 5}/c{n}" for n in range(20)]


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
async def test_the_calls_of_a_session_come_in_pages_of_a_size(
    store: EventStore, models: ReadModels, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("projections.queries.session_lists.PAGE_BYTES", 2 * len(LARGE))
    found, pages, cursor = list[str](), list[int](), None
    while True:
        page = json.loads(await models.calls(TENANT, "s1", limit=limit, cursor=cursor))
        found += [call["interrupt_id"] for call in page["calls"]]
        pages.append(len(page["calls"]))
        if (cursor := page["next_cursor"]) is None:
            break
    assert found == ["c1", "c6", "c11", "c16"]
    assert max(pages) <= 2
