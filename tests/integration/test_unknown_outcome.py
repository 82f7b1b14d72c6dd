"""The answer to a commit is lost on the way: whatever was sent again, there is exactly one effect."""

from __future__ import annotations

import asyncio

import pytest

from eventstore.domain.errors import SessionDeleted
from eventstore.event_store import EventStore
from proofs.proxy import CUT_AFTER, CUT_BEFORE, Proxy
from tests.integration.conftest import OpenStore
from tests.integration.stores import TENANT, count, create, key, note, send, texts
from tests.unit.domain.given import ANNA, approve, ask, claim, event, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cut(proxy: Proxy, opened: OpenStore) -> EventStore:
    """A store whose connections can be cut."""
    store = await opened(proxy.url)
    await create(store)
    return store


def arm(proxy: Proxy, when: str, times: int = 1) -> None:
    proxy.faults.extend([CUT_BEFORE if when == "before" else CUT_AFTER] * times)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_cut_commit_has_one_effect(cut: EventStore, proxy: Proxy, when: str, times: int) -> None:
    arm(proxy, when, times)
    answer = await send(cut, turn(), note("once"))
    assert answer.result["first_seq"] == 2
    assert not answer.replayed
    assert await texts(cut) == ["once"]


async def test_a_cut_creation_has_one_effect(proxy: Proxy, opened: OpenStore) -> None:
    store = await opened(proxy.url)
    arm(proxy, "after")
    assert (await create(store)).result["seq"] == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cut_commit_has_one_effect_though_another_process_wrote_in_between(
    cut: EventStore, store: EventStore, proxy: Proxy, when: str
) -> None:
    async def others_write() -> None:
        for n in range(3):
            await send(store, note(f"theirs {n}"))

    proxy.meanwhile = others_write
    arm(proxy, when)
    answer = await send(cut, note("mine"))
    assert not answer.replayed
    assert (await texts(cut)).count("mine") == 1
    assert (await send(cut, note("next"))).result["first_seq"] == len(await texts(cut)) + 1


@pytest.mark.parametrize("in_between", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cut_batch_of_keyed_and_unkeyed_commands_has_each_effect_once(
    cut: EventStore, store: EventStore, proxy: Proxy, when: str, in_between: bool
) -> None:
    if in_between:
        proxy.meanwhile = lambda: send(store, note("theirs"))
    arm(proxy, when)
    commands = [send(cut, note(n), retry=key(f"k{n}") if n % 2 else None) for n in range(6)]
    answers = await asyncio.gather(*commands)
    assert not any(answer.replayed for answer in answers)
    assert [text for text in await texts(cut) if text != "theirs"] == list(range(6))
    for n in (1, 3, 5):
        again = await send(store, note(n), retry=key(f"k{n}"))
        assert again.result == answers[n].result


@pytest.mark.parametrize("in_between", [False, True])
async def test_a_cut_decision_is_not_taken_for_somebody_elses(
    cut: EventStore, store: EventStore, proxy: Proxy, in_between: bool
) -> None:
    await send(cut, ask("c1"))
    if in_between:
        proxy.meanwhile = lambda: send(store, note("theirs"))
    arm(proxy, "after")
    assert (await send(cut, approve("c1"), by=ANNA)).result["outcome"] == "applied"
    arm(proxy, "after")
    assert (await send(cut, claim("c1"))).result["attempt"] == 1
    assert await count(cut, "input.completed") == 1
    assert await count(cut, "action.claimed") == 1


async def test_a_cut_commit_of_a_session_that_ended_meanwhile_has_taken_place(
    cut: EventStore, store: EventStore, proxy: Proxy
) -> None:
    proxy.meanwhile = lambda: send(store, event("session.completed"))
    arm(proxy, "after")
    assert (await send(cut, note("mine"))).result["first_seq"] == 2


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cut_deletion_is_done(cut: EventStore, proxy: Proxy, when: str) -> None:
    arm(proxy, when)
    await cut.delete(TENANT, "s1")
    with pytest.raises(SessionDeleted):
        await cut.delete(TENANT, "s1")


async def test_every_commit_of_a_busy_line_that_is_cut_again_and_again_has_one_effect(
    cut: EventStore, store: EventStore, proxy: Proxy
) -> None:
    async def cutting() -> None:
        for n in range(40):
            if not proxy.faults:  # else one is still to come
                arm(proxy, "before" if n % 2 else "after")
            await asyncio.sleep(0.01)

    async def writing(name: str, chosen: EventStore) -> None:
        for n in range(60):
            await send(chosen, note([name, n]), retry=key(f"{name}{n}") if n % 3 else None)

    await asyncio.gather(cutting(), writing("a", cut), writing("b", cut), writing("c", store))
    found = await texts(store)
    assert sorted(found) == sorted([name, n] for name in "abc" for n in range(60))
    for name in "abc":
        assert [n for other, n in found if other == name] == list(range(60))
