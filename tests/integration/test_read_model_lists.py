"""The inbox and the list of sessions: what stands in them, in which order, and page by page."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from eventstore.domain.errors import InvalidRequest
from eventstore.domain.values.timestamps import parse, text
from eventstore.event_store import EventStore
from projections.read_models import ReadModels
from tests.integration.conftest import OpenStore
from tests.integration.models import check, dump, inbox, leftovers, names, project, session_ids, sessions
from tests.integration.stores import TENANT, client_of, create, models_of, note, now, passed, send, stored
from tests.unit.domain.given import HOUR, approve, ask, connect, event, reject, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def models(store: EventStore) -> ReadModels:
    return models_of(store)


async def deadlines(models: ReadModels) -> list[int]:
    return [parse(call["expires_at"]) for call in (await inbox(models, limit=1_000))["calls"]]


async def test_the_inbox_has_the_nearest_deadline_first_over_all_sessions(store: EventStore, models: ReadModels):
    waits = [5_000_000, 3_000_000, 9_000_000, 4_000_000, 8_000_000]
    for n, wait in enumerate(waits):
        await create(store, f"s{n}")
        await send(store, ask("c", expires_in_ms=wait), session_id=f"s{n}")
    assert await names(models) == ["s1/c", "s3/c", "s0/c", "s4/c", "s2/c"]
    assert await names(models, limit=2) == await names(models)
    assert await deadlines(models) == sorted(await deadlines(models))
    await check(models, store)


@pytest.mark.parametrize("limit", [1, 3, 7, 40])
async def test_equal_deadlines_are_paged_without_a_gap_or_a_repeat(store: EventStore, models: ReadModels, limit: int):
    await create(store, "clock")
    now = (await sessions(models))["sessions"][0]["created_at"]
    due = text(parse(now) + HOUR)
    expected = list[str]()
    for n in range(6):
        await create(store, f"s{n}")
        calls = [f"{name}{n}" for name in ("a", "B", "é", "字", "~", "\U0001f600", "Z z")]
        await send(store, *[ask(name, expires_at=due) for name in calls], session_id=f"s{n}")
        expected += [f"s{n}/{name}" for name in calls]
    found = await names(models, limit=limit)
    assert found == sorted(expected, key=str.encode)
    assert (await inbox(models, limit=1))["total"] == len(expected)


async def test_the_inbox_filters_by_status_tool_and_agent_and_by_both(store: EventStore, models: ReadModels):
    for n, agent in enumerate([None, "ann", "bén"]):
        await create(store, f"s{n}", agent=agent)
        asks = [ask(f"{tool}{k}", tool_name=tool) for tool in ("mail", "pay") for k in range(2)]
        await send(store, *asks, session_id=f"s{n}")
        await send(store, approve("mail0"), session_id=f"s{n}")
        await send(store, reject("pay0"), session_id=f"s{n}")
    assert len(await names(models)) == 6
    assert set(await names(models, agent="ann")) == {"s1/mail1", "s1/pay1"}
    assert set(await names(models, tool_name="pay")) == {"s0/pay1", "s1/pay1", "s2/pay1"}
    assert await names(models, tool_name="pay", agent="bén") == ["s2/pay1"]
    assert await names(models, tool_name="pay", agent="bén", status="REJECTED") == ["s2/pay0"]
    assert await names(models, status="EXPIRED") == []
    assert set(await names(models, status="APPROVED_EXECUTING")) == {"s0/mail0", "s1/mail0", "s2/mail0"}
    page = await inbox(models, tool_name="pay", agent="bén", status="REJECTED")
    assert (page["total"], page["calls"][0]["status"]) == (1, "REJECTED")
    for none in ({"agent": "nobody"}, {"tool_name": "nothing"}, {"agent": "ann", "tool_name": "nothing"}):
        assert await inbox(models, **none) == {"calls": [], "next_cursor": None, "total": 0}


async def test_overdue_calls_expire_before_a_list_is_shown(opened: OpenStore):
    idle = await opened(start=False)
    models = models_of(idle)
    for n in range(70):
        await create(idle, f"s{n}")
        await send(idle, ask("c", expires_in_ms=600_000 if n % 2 else 50), session_id=f"s{n}")
    await passed(idle, await _deadline(idle, "s68"))
    found = await inbox(models, limit=1_000)
    assert found["total"] == len(found["calls"]) == 35
    assert (await inbox(models, status="EXPIRED"))["total"] == 35
    assert len(await session_ids(models, status="waiting", parked=True)) == 35
    await check(models, idle)


async def test_a_session_that_cannot_expire_does_not_hide_the_others(opened: OpenStore):
    idle = await opened(start=False)
    models = models_of(idle)
    for name in ("s1", "s2"):
        await create(idle, name)
        await send(idle, ask("c", expires_in_ms=50), session_id=name)
    due = await _deadline(idle, "s2")
    keys = idle.session_keys(TENANT, "s1")
    await client_of(idle).client.xadd(keys.events, {"e": "{}", "h": ""}, id="1000-0")  # the next commit finds it lost
    await passed(idle, due)
    assert await names(models, status="EXPIRED") == ["s2/c"]
    await client_of(idle).client.flushall()


async def _deadline(store: EventStore, session_id: str) -> int:
    """From the log, since every other look would let it pass."""
    asked = next(one for one in await stored(store, session_id) if one["type"] == "input.requested")
    return parse(asked["data"]["expires_at"])


async def test_sessions_come_with_the_newest_activity_first(store: EventStore, models: ReadModels):
    for n in range(8):
        await create(store, f"s{n}", agent="ann" if n % 2 else None)
        await _later(store)
    await send(store, note(), session_id="s3")
    expected = ["s3", "s7", "s6", "s5", "s4", "s2", "s1", "s0"]
    assert await session_ids(models) == expected
    for limit in (1, 3, 8):
        assert await session_ids(models, limit=limit) == expected
    row = (await sessions(models))["sessions"][0]
    assert list(row) == [
        "session_id", "agent", "thread_id", "status", "parked", "seq", "created_at", "updated_at", "open_calls"
    ]  # fmt: skip
    assert (row["agent"], row["seq"], row["open_calls"]) == ("ann", 2, 0)


async def _later(store: EventStore) -> None:
    await passed(store, await now(store))


async def test_sessions_of_the_same_moment_are_paged_without_a_gap_or_a_repeat(store: EventStore, models: ReadModels):
    everyone = [f"{name}{n}" for n in range(12) for name in ("a.", "B:", "~")]
    await asyncio.gather(*(create(store, name) for name in everyone))
    for limit in (1, 5, 36):
        assert sorted(await session_ids(models, limit=limit)) == sorted(everyone)
    rows = (await sessions(models, limit=100))["sessions"]
    shown = [(row["updated_at"], row["session_id"]) for row in rows]
    assert shown == sorted(shown, reverse=True)


async def test_sessions_are_filtered_by_status_parked_and_agent(store: EventStore, models: ReadModels):
    ways = {
        "running": [],
        "parked": [ask()],
        "idle": [turn(), event("turn.completed")],
        "completed": [event("session.completed")],
        "failed": [ask(), event("session.failed")],
    }
    for name, events in ways.items():
        for agent in (None, "ann"):
            session_id = f"{name}{agent or ''}"
            await create(store, session_id, agent=agent)
            if events:
                await send(store, *events, session_id=session_id)
    by_status = {"waiting": {"parked", "idle"}, None: set(ways)}
    for status in (None, "running", "waiting", "completed", "failed"):
        for parked in (None, True, False):
            classes = by_status.get(status, {status})
            if parked is not None:
                classes = classes & {"parked"} if parked else classes - {"parked"}
            for agent, suffixes in ((None, ("", "ann")), ("ann", ("ann",)), ("nobody", ())):
                expected = {f"{name}{suffix}" for name in classes for suffix in suffixes}
                assert set(await session_ids(models, status=status, parked=parked, agent=agent, limit=2)) == expected
    await check(models, store)


async def test_a_deleted_session_leaves_the_lists_and_nothing_behind(store: EventStore, models: ReadModels):
    for name in ("gone-for-good", "s2"):
        await create(store, name, agent="ann")
        await send(store, turn(), ask("c1"), connect("a1"), session_id=name)
        await send(store, approve("c1"), session_id=name)
    await project(models, store)
    await store.delete(TENANT, "gone-for-good")
    assert await session_ids(models) == ["s2"]
    assert await names(models) == ["s2/a1"]
    assert await models.newest_authorization(TENANT, "a1") == "s2"
    assert not [key for key, value in (await dump(store)).items() if "gone-for-good" in f"{key} {value}"]
    await store.delete(TENANT, "s2")
    await project(models, store)
    assert await dump(store) == {}
    assert await leftovers(store) == []


async def test_a_session_of_many_calls_is_deleted_in_parts(store: EventStore, models: ReadModels):
    await create(store, agent="ann")
    for k in range(3):
        await send(store, *[ask(f"c{k}-{n}") for n in range(300)])
    await project(models, store)
    await store.delete(TENANT, "s1")
    await project(models, store)
    assert await dump(store) == {}


async def test_a_session_deleted_before_it_was_projected_never_shows(store: EventStore, models: ReadModels):
    await create(store)
    await send(store, ask())
    await store.delete(TENANT, "s1")
    assert await session_ids(models) == []
    assert await names(models) == []
    await project(models, store)
    assert await dump(store) == {}


async def test_the_newest_open_authorization_of_a_name_is_found(store: EventStore, models: ReadModels):
    assert await models.newest_authorization(TENANT, "a1") is None
    for n in range(5):
        await create(store, f"s{n}")
        await send(store, connect("a1"), session_id=f"s{n}")
        await _later(store)
    assert await models.newest_authorization(TENANT, "a1") == "s4"
    for n in (4, 3, 2):
        await send(store, event("session.completed"), session_id=f"s{n}")
    assert await models.newest_authorization(TENANT, "a1") == "s1"
    for n in (1, 0):
        await send(store, event("session.completed"), session_id=f"s{n}")
    assert await models.newest_authorization(TENANT, "a1") == "s4"


async def test_names_that_look_like_parts_of_a_key_are_names(store: EventStore, models: ReadModels):
    for name in ("authorization", "authorizations", "sessions", "inbox", "s", "checkpoint", "a:b"):
        await create(store, name, agent=f"{name}:agent")
        parts = [connect(part) for part in ("view", "steps", "calls", "order", "open", "a:b")]
        await send(store, *parts, session_id=name)
    assert len(await names(models)) == 42
    assert await session_ids(models, agent="a:b:agent") == ["a:b"]
    await check(models, store)


async def test_a_cursor_of_another_list_or_of_nobody_is_refused(store: EventStore, models: ReadModels):
    for n in range(3):
        await create(store, f"s{n}")
        await send(store, ask(), session_id=f"s{n}")
    cursor = (await inbox(models, limit=1))["next_cursor"]
    huge = base64.urlsafe_b64encode(json.dumps(["inbox", 10**400, ""]).encode()).decode().rstrip("=")
    for bad in ("garbled", huge, (await sessions(models, limit=1))["next_cursor"]):
        with pytest.raises(InvalidRequest):
            await inbox(models, cursor=bad)
    with pytest.raises(InvalidRequest):
        await sessions(models, cursor=cursor)
    await send(store, reject("c1"), session_id="s0")
    assert len((await inbox(models, cursor=cursor))["calls"]) >= 1  # what the cursor names may be gone


async def test_a_tenant_sees_its_own_alone(store: EventStore, models: ReadModels):
    await create(store)
    await send(store, ask())
    for query in (models.inbox("other", tool_name=None, agent=None, limit=10, cursor=None),):
        assert json.loads(await query)["calls"] == []
    known = {"status": None, "parked": None, "agent": None, "limit": 10, "cursor": None}
    assert json.loads(await models.sessions("other", **known))["sessions"] == []


async def test_a_page_is_whole_even_if_one_partition_holds_all_of_it(store: EventStore, models: ReadModels):
    some = [f"s{n}" for n in range(300) if store.session_keys(TENANT, f"s{n}").partition.number == 1][:60]
    for name in some:
        await create(store, name)
    for limit in (30, 59, 60, 61):
        page = await sessions(models, limit=limit)
        assert len(page["sessions"]) == min(limit, 60)
        assert (page["next_cursor"] is None) == (limit >= 60)
        assert set(await session_ids(models, limit=limit)) == set(some)
