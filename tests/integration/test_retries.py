"""A retry hears what the first attempt heard, whatever has become of the session and whoever is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eventstore.domain.commands import CreateSession, Publish
from eventstore.domain.errors import (
    IdempotencyKeyReused,
    IllegalTransition,
    RequestInProgress,
    SessionDeleted,
    SessionExists,
)
from eventstore.event_store import EventStore
from eventstore.redis_client.scripts import ScriptCall
from tests.integration.stores import TENANT, count, create, key, note, send, texts
from tests.unit.domain.given import AGENT, ANNA, approve, ask, event, turn

pytestmark = pytest.mark.anyio


async def test_a_retry_hears_exactly_the_first_answer(store: EventStore) -> None:
    await create(store)
    first = await send(store, turn(), note([]), retry=key("k"))
    again = await send(store, turn(), note([]), retry=key("k"))
    assert (again.result, again.replayed) == (first.result, True)
    assert not first.replayed
    assert await count(store, "turn.started") == 1


async def test_a_retry_at_another_process_hears_the_first_answer(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(other, note("warm"))
    first = await send(store, note(), retry=key("k"))
    again = await send(other, note(), retry=key("k"))
    assert (again.result, again.replayed) == (first.result, True)


async def test_a_retried_creation_hears_the_first_answer(store: EventStore, other: EventStore) -> None:
    first = await store.execute(TENANT, "s1", CreateSession("s1"), AGENT, key("k"))
    again = await other.execute(TENANT, "s1", CreateSession("s1"), AGENT, key("k"))
    assert again.result == first.result
    with pytest.raises(SessionExists):
        await other.execute(TENANT, "s1", CreateSession("s1"), AGENT, key("another"))


async def test_a_retry_hears_the_first_answer_after_the_session_has_ended(store: EventStore) -> None:
    await create(store)
    first = await send(store, note(), retry=key("k"))
    await send(store, event("session.completed"))
    assert (await send(store, note(), retry=key("k"))).result == first.result


async def test_a_retry_with_another_body_is_refused(store: EventStore, other: EventStore) -> None:
    await create(store)
    await send(store, note(), retry=key("k"))
    for chosen in (store, other):
        with pytest.raises(IdempotencyKeyReused):
            await send(chosen, note("other"), retry=key("k", "other"))


async def test_a_retry_while_the_first_still_runs_is_refused(store: EventStore) -> None:
    await create(store)
    first = asyncio.create_task(send(store, note(), retry=key("k")))
    await asyncio.sleep(0)
    with pytest.raises(RequestInProgress):
        await send(store, note(), retry=key("k"))
    with pytest.raises(IdempotencyKeyReused):
        await send(store, note(), retry=key("k", "other"))
    await first
    assert (await send(store, note(), retry=key("k"))).replayed


async def test_the_same_key_at_two_processes_at_once_has_one_effect(store: EventStore, other: EventStore) -> None:
    await create(store)
    for n in range(20):
        one, two = await asyncio.gather(*(send(chosen, turn(f"t{n}"), retry=key(f"k{n}")) for chosen in (store, other)))
        assert one.result == two.result
        await send(store, event("turn.completed"))
    assert await count(store, "turn.started") == 20


async def test_a_refused_request_is_not_kept(store: EventStore) -> None:
    await create(store)
    with pytest.raises(IllegalTransition):
        await send(store, event("turn.completed"), retry=key("k"))
    await send(store, turn())
    assert not (await send(store, event("turn.completed"), retry=key("k"))).replayed


async def test_an_answer_that_changed_nothing_is_kept_too(store: EventStore) -> None:
    await create(store)
    await send(store, ask("c1"))
    await send(store, approve("c1"), by=ANNA)
    first = await send(store, approve("c1"), by=ANNA, retry=key("k"))
    assert first.result["outcome"] == "duplicate"
    assert (await send(store, approve("c1"), by=ANNA, retry=key("k"))).result == first.result


async def test_retries_go_with_the_deleted_session(store: EventStore) -> None:
    await create(store)
    await send(store, note(), retry=key("k"))
    await store.delete(TENANT, "s1")
    with pytest.raises(SessionDeleted):
        await send(store, note(), retry=key("k"))


async def test_retries_and_new_commands_can_share_a_batch(store: EventStore, other: EventStore) -> None:
    await create(store)
    firsts = await asyncio.gather(*(send(store, note(n), retry=key(f"k{n}")) for n in range(5)))
    mixed = [send(other, note(n), retry=key(f"k{n}")) if n < 5 else send(other, note(n)) for n in range(10)]
    answers = await asyncio.gather(*mixed)
    assert [answer.result for answer in answers[:5]] == [answer.result for answer in firsts]
    assert await texts(store) == list(range(10))


async def test_a_retry_at_a_cold_process_commits_nothing(
    store: EventStore, other: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    first = await send(store, note(), retry=key("k"))

    commits, run = list[object](), other._writer._commits.run

    async def counted(call: ScriptCall) -> object:
        commits.append(call)
        return await run(call)

    monkeypatch.setattr(other._writer._commits, "run", counted)
    assert (await send(other, note(), retry=key("k"))).result == first.result
    await other._writer.idle()
    assert commits == []


async def test_a_retry_hears_the_first_answer_though_that_came_between_two_looks_at_the_store(
    store: EventStore, other: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command names a call, so it takes two looks; by the second, the first attempt has opened its turn."""
    await create(store)
    looks, run = list[object](), other._writer._reads.reply

    async def between(call: Any) -> object:
        looks.append(call)
        if len(looks) == 2:
            await send(store, turn(), ask("c1"), retry=key("k"))
        return await run(call)

    monkeypatch.setattr(other._writer._reads, "reply", between)
    assert (await send(other, turn(), ask("c1"), retry=key("k"))).replayed
    assert len(looks) == 2


async def test_many_retries_at_a_warm_process_are_looked_up_together(
    store: EventStore, other: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    await send(other, note("warm"))
    firsts = await asyncio.gather(*(send(store, note(n), retry=key(f"k{n}")) for n in range(64)))

    commits, run = list[object](), other._writer._commits.run

    async def counted(call: ScriptCall) -> object:
        commits.append(call)
        return await run(call)

    monkeypatch.setattr(other._writer._commits, "run", counted)
    # Else a busy machine may take two batches for them.
    monkeypatch.setattr("eventstore.commit.batch.MAX_DECIDING_MS", 60_000)
    again = await asyncio.gather(*(send(other, note(n), retry=key(f"k{n}")) for n in range(64)))
    assert [answer.result for answer in again] == [answer.result for answer in firsts]
    assert len(commits) == 1


async def test_a_command_that_is_under_way_can_be_waited_for(store: EventStore) -> None:
    await create(store)
    publish = Publish([note()])
    first = store.submit(TENANT, "s1", publish, AGENT, key("k"))
    assert store.under_way(TENANT, "s1", key("k")) is first
    assert store.under_way(TENANT, "s1", key("l")) is None
    with pytest.raises(IdempotencyKeyReused):
        store.under_way(TENANT, "s1", key("k", "other"))
    await first
    assert store.under_way(TENANT, "s1", key("k")) is None


async def test_commands_are_carried_out_in_the_order_in_which_they_are_handed_in(
    store: EventStore, other: EventStore
) -> None:
    """Also where records have to be read for some of them, and others write the session meanwhile."""
    await create(store)
    await send(store, ask("c1"))
    await send(other, note("theirs"))
    batches = [[note(n), ask(f"c{n % 7}")] if n % 3 == 0 else [note(n)] for n in range(50)]
    answers = [
        store.submit(TENANT, "s1", Publish(batch), AGENT, key(f"k{n}") if n % 2 else None)
        for n, batch in enumerate(batches)
    ]
    await asyncio.gather(send(other, note("theirs")), *answers)
    assert [text for text in await texts(store) if text != "theirs"] == list(range(50))
