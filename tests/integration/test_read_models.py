"""The snapshot of a session is a function of its events: whatever is stored of it, and however it came to be so."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.commit.records import LogPage
from eventstore.domain.commands import ClaimCall
from eventstore.domain.errors import InternalError, InvalidRequest, NoSuchPoint, SessionDeleted, SessionNotFound
from eventstore.domain.values.timestamps import parse
from eventstore.event_store import EventStore
from eventstore.redis_keys import SessionKeys
from projections.projector.rebuild import Rebuild
from projections.queries import snapshots
from projections.read_models import ReadModels
from tests.integration import models as stored_models
from tests.integration.conftest import OpenStore
from tests.integration.models import project, snapshot
from tests.integration.stores import TENANT, client_of, create, models_of, note, passed, send, stored, until
from tests.integration.wandering import Wanderer
from tests.unit.domain.given import approve, ask, event, reject, turn

pytestmark = pytest.mark.anyio
COPY = "copy"


@pytest.fixture
def models(store: EventStore) -> ReadModels:
    return models_of(store)


async def append(store: EventStore, keys: SessionKeys, line: bytes) -> None:
    """One more event of a log, as a commit that holds nothing else would leave it."""
    seq, partition = json.loads(line)["seq"], keys.partition
    pipe = client_of(store).client.pipeline(transaction=False)
    pipe.xadd(keys.events, {"e": line, "h": ""}, id=f"{seq}-0")
    pipe.hset(keys.head, mapping={"rev": f"r{seq}", "seq": seq, "time": 0, "state": "{}", "due": ""})
    pipe.zadd(partition.sessions, {keys.member: 0})
    pipe.xadd(partition.feed, {"t": keys.tenant, "s": keys.session_id, "f": seq, "l": seq, "y": ""})
    await pipe.execute()


class Copy:
    """The same session once more, in another tenant: event by event, so that it stands still at every seq."""

    def __init__(self, store: EventStore, models: ReadModels) -> None:
        self.models = models
        self._store = store
        self._keys = store.session_keys(COPY, "s1")
        self._rebuild = Rebuild(client_of(store), store.keys)

    async def follow(self, *, project_every: int, rebuild_every: int, compare_every: int = 1) -> None:
        """What is stored changes at every so many events; the snapshot never depends on it."""
        entries = await client_of(self._store).client.xrange(self._store.session_keys(TENANT, "s1").events)
        past: Any = None
        for seq, (_, fields) in enumerate(entries, 1):
            await append(self._store, self._keys, fields[b"e"])
            if seq % project_every == 0:
                await self.models.catch_up(self._keys.partition.number)
            if seq % rebuild_every == 0:
                await self._rebuild.partition(self._keys.partition.number)
            if seq % compare_every == 0 or seq == len(entries):
                past = await self.models.session_at(TENANT, "s1", at=seq)
                assert await self.models.session(COPY, "s1") == past == (seq, past[1])
        await self._rebuild.all()
        assert await self.models.session(TENANT, "s1") == await self.models.session(COPY, "s1") == past
        await stored_models.check(self.models, self._store)


@pytest.mark.parametrize("kind", ["turn", "explicit"])
@pytest.mark.parametrize("project_every", [1, 7])
async def test_the_snapshot_is_the_same_at_every_seq_whatever_is_stored(
    store: EventStore, models: ReadModels, kind: str, project_every: int
):
    wanderer = Wanderer(store, "s1", int.from_bytes(os.urandom(4)), kind)
    await wanderer.begin()
    await wanderer.wander(100)
    await send(store, ask("last"), event("session.completed"))
    await Copy(store, models).follow(project_every=project_every, rebuild_every=60)


async def test_windows_roll_over_many_steps_and_calls_but_keep_what_is_open(store: EventStore, models: ReadModels):
    await create(store)
    for n in range(250):
        await send(store, turn(f"t{n}"), ask(f"c{n}"))
        if n not in (2, 100, 240):
            await send(store, reject(f"c{n}"))
        await send(store, event("turn.completed"))
        if n % 60 == 0:
            await project(models, store)
    now = await snapshot(models)
    assert [step["turn_id"] for step in now["steps"]] == [f"t{n}" for n in range(150, 250)]
    shown = [f"c{n}" for n in range(149, 250)]
    assert [call["interrupt_id"] for call in now["calls"]] == ["c2", "c100", *shown]
    assert (now["steps_total"], now["calls_total"]) == (250, 250)
    await project(models, store)
    assert await snapshot(models) == now
    await send(store, reject("c2"))  # it joins the closed ones, and is far too old to be shown among them
    await send(store, reject("c240"))  # the 100 newest closed ones now reach one less far
    then = await snapshot(models)
    assert [call["interrupt_id"] for call in then["calls"]] == ["c100", *shown[1:]]
    await Copy(store, models).follow(project_every=19, rebuild_every=1_000, compare_every=97)


@pytest.mark.parametrize("background", [False, True])
async def test_an_acknowledged_event_is_in_the_very_next_answer(
    store: EventStore, models: ReadModels, other: EventStore, background: bool
):
    elsewhere = models_of(other)
    if background:
        models.start()
        elsewhere.start()
    try:
        for n in range(60):
            name = f"s{n % 7}"
            if n < 7:
                await create(store, name, agent=f"agent{n % 2}")
            answer = await send(store, ask(f"c{n}"), session_id=name)
            for reader in (models, elsewhere):
                assert (await snapshot(reader, name))["seq"] == answer.result["last_seq"]
                first = (await stored_models.sessions(reader, limit=1))["sessions"][0]
                assert (first["session_id"], first["seq"]) == (name, answer.result["last_seq"])
                found = await stored_models.inbox(reader, limit=1_000)
                assert f"c{n}" in [call["interrupt_id"] for call in found["calls"]]
                assert found["total"] == len(found["calls"])
                calls = json.loads(await reader.calls(TENANT, name, 1_000, None))["calls"]
                assert calls[-1]["interrupt_id"] == f"c{n}"
            if n % 3 == 0:
                await send(store, approve(f"c{n}"), session_id=name)
                found = await stored_models.inbox(elsewhere, limit=1_000)
                assert f"c{n}" not in [call["interrupt_id"] for call in found["calls"]]
        if background:
            await until(lambda: models.lag() == elsewhere.lag() == {"partitions_behind": 0})
        await stored_models.check(models, store)
    finally:
        await models.close()
        await elsewhere.close()


async def test_a_snapshot_lets_what_is_overdue_expire_first(opened: OpenStore):
    idle = await opened(start=False)
    models = models_of(idle)
    await create(idle)
    await send(idle, ask("c1", expires_in_ms=30))
    due = parse((await snapshot(models))["calls"][0]["expires_at"])
    await passed(idle, due)
    assert (await snapshot(models))["calls"][0]["status"] == "EXPIRED"
    steps = json.loads(await models.calls(TENANT, "s1", 10, None))
    assert steps["calls"][0]["status"] == "EXPIRED"


async def test_a_snapshot_never_ends_within_a_commit(
    store: EventStore, models: ReadModels, monkeypatch: pytest.MonkeyPatch
):
    """Not even if the commit comes between the head and the log, and is larger than what is read at once."""
    await create(store)
    page, late = store.page, [[note(number) for number in range(10)]]

    async def after_a_commit(*place: Any, **how: Any) -> LogPage:
        if late:
            await send(store, *late.pop())
        return await page(*place, **how)

    monkeypatch.setattr(snapshots, "PAGE_LINES", 4)
    monkeypatch.setattr(store, "page", after_a_commit)
    assert (await snapshot(models, "s1"))["seq"] == 1
    assert (await snapshot(models, "s1"))["seq"] == 11


async def test_a_renewed_lease_is_no_event_and_leaves_the_snapshot_as_it_is(store: EventStore, models: ReadModels):
    await create(store)
    await send(store, ask())
    await send(store, approve())
    await send(store, ClaimCall("c1", "w1", 60_000))
    before = await models.session(TENANT, "s1")
    await send(store, ClaimCall("c1", "w1", 120_000))
    assert await models.session(TENANT, "s1") == before
    await Rebuild(client_of(store), store.keys).all()
    assert await models.session(TENANT, "s1") == before


async def test_a_point_of_the_past_is_named_by_seq_or_by_time(store: EventStore, models: ReadModels):
    await create(store)
    for n in range(3):
        times = [parse(one["time"]) for one in await stored(store)]
        await passed(store, times[-1])
        await send(store, note(n), note(n))
    times = [parse(one["time"]) for one in await stored(store)]
    for seq in range(1, 8):
        assert (await models.session_at(TENANT, "s1", at=seq))[0] == seq
    assert (await models.session_at(TENANT, "s1", at_time=times[0]))[0] == 1
    assert (await models.session_at(TENANT, "s1", at_time=times[1]))[0] == 3
    assert (await models.session_at(TENANT, "s1", at_time=times[1] - 1))[0] == 1
    assert await models.session_at(TENANT, "s1", at_time=times[-1] + 10**9) == await models.session(TENANT, "s1")
    for point in ({"at": 0}, {"at": 8}, {"at": 10**18}, {"at_time": times[0] - 1}):
        with pytest.raises(NoSuchPoint):
            await models.session_at(TENANT, "s1", **point)


async def test_a_long_past_is_folded_page_by_page_up_to_the_point(store: EventStore, models: ReadModels):
    await create(store)
    for n in range(3):
        await send(store, *[note(n) for _ in range(600)])
    for at in (499, 500, 501, 1_000, 1_001, 1_801):
        assert (await models.session_at(TENANT, "s1", at=at))[0] == at
    last = parse((await stored(store))[-1]["time"])
    assert (await models.session_at(TENANT, "s1", at_time=last))[0] == 1_801


async def test_a_session_that_is_not_there_is_told_from_one_that_was_deleted(store: EventStore, models: ReadModels):
    await create(store)
    await store.delete(TENANT, "s1")
    for name, problem in (("s1", SessionDeleted), ("never", SessionNotFound)):
        with pytest.raises(problem):
            await models.session(TENANT, name)
        with pytest.raises(problem):
            await models.session_at(TENANT, name, at=1)
        with pytest.raises(problem):
            await models.steps(TENANT, name, 10, None)
        with pytest.raises(problem):
            await models.calls(TENANT, name, 10, None)


async def test_steps_and_calls_come_in_pages_the_oldest_first(store: EventStore, models: ReadModels):
    await create(store)
    for n in range(25):
        await send(store, turn(f"t{n}"), ask(f"c{n}"), event("turn.completed"))
    for kind, member, read in (("steps", "turn_id", models.steps), ("calls", "interrupt_id", models.calls)):
        found, cursor, pages = list[str](), None, 0
        while pages == 0 or cursor:
            page = json.loads(await read(TENANT, "s1", 10, cursor))
            found += [one[member] for one in page[kind]]
            cursor, pages = page["next_cursor"], pages + 1
        assert pages == 3
        assert found == [f"{member[0] if kind == 'steps' else 'c'}{n}" for n in range(25)]
        assert json.loads(await read(TENANT, "s1", 25, None))["next_cursor"] is None
    page = json.loads(await models.steps(TENANT, "s1", 10, None))
    with pytest.raises(InvalidRequest):
        await models.calls(TENANT, "s1", 10, page["next_cursor"])
    with pytest.raises(InvalidRequest):
        await models.steps(TENANT, "s1", 10, "garbled")


async def test_a_log_that_cannot_be_folded_is_told_apart_from_the_others(
    store: EventStore, models: ReadModels, redis: Redis, caplog: pytest.LogCaptureFixture
):
    await create(store, "s1")
    await create(store, "s2")
    keys = store.session_keys(TENANT, "s1")
    for line in (
        b'{"seq":2,"type":"input.completed","time":"2026-11-29T12:00:00.000Z","by":"x","data":[]}',
        b"no JSON",
    ):
        await redis.delete(keys.events)
        await redis.xadd(keys.events, {"e": line, "h": ""}, id="1-0")
        with pytest.raises(InternalError):
            await models.session(TENANT, "s1")
        with pytest.raises(InternalError):
            await models.calls(TENANT, "s1", 10, None)
        assert "layby verify s1" in caplog.text
    assert (await snapshot(models, "s2"))["seq"] == 1
    assert await stored_models.session_ids(models) == ["s2"]
