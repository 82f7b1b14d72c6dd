"""A store on a cluster of three primaries: everything works, slots may move, and a node may go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from eventstore.domain.errors import StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.log.hash_chain import Verifier
from eventstore.redis_client.preflight import EvictingEngine, OneOfSeveral, RightsMissing
from eventstore.settings import Durability
from projections.projector.rebuild import Rebuild
from projections.read_models import ReadModels
from proofs.engines import Cluster
from tests.integration.clusters import AT_ONCE, at, clear, opened, slot_of
from tests.integration.models import inbox, session_ids, snapshot
from tests.integration.stores import (
    TENANT,
    chosen,
    client_of,
    create,
    generator,
    key,
    models_of,
    note,
    open_at,
    send,
    skip_without_waitaof,
    until,
)
from tests.unit.domain.given import approve, ask, turn

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), primaries=3, replicas=1, **AT_ONCE) as cluster:
        yield cluster


@pytest.fixture
async def cluster(group: Cluster) -> AsyncGenerator[Cluster]:
    """Empty and whole when a test begins, whatever the last one did to it."""
    for node in group.nodes:
        if node.alive:
            node.thaw()
        else:
            await asyncio.to_thread(node.start)
    await asyncio.to_thread(group.settle)
    await clear(group.nodes)
    yield group


@pytest.fixture
async def stores(cluster: Cluster) -> AsyncGenerator[list[EventStore]]:
    async with opened(cluster.url, 2) as found:
        yield list(found)


@pytest.fixture
async def store(stores: list[EventStore]) -> EventStore:
    return stores[0]


async def texts(store: EventStore, session_id: str) -> list[Any]:
    page = await store.page(TENANT, session_id, 1, 10_000)
    return [line for line in page.lines if b"note.taken" in line]


async def test_everything_works_on_three_nodes(stores: list[EventStore]) -> None:
    store, other = stores
    models, names = models_of(store), [f"s{n}" for n in range(24)]
    await asyncio.gather(*(create(store, name, agent="ann") for name in names))
    assert len({client_of(store).topology.node(store.session_keys(TENANT, name).head) for name in names}) == 3
    await asyncio.gather(*(send(store, turn(), ask("c1"), ask("c2"), session_id=name) for name in names))
    answers = await asyncio.gather(*(send(other, approve("c1"), session_id=name) for name in names))
    assert {answer.durability for answer in answers} == {"fsync"}
    assert sorted(await session_ids(models, limit=5)) == sorted(names)
    assert (await inbox(models, status="APPROVED_EXECUTING"))["total"] == 24
    assert (await snapshot(models, "s3"))["calls_total"] == 2
    before = (await snapshot(models, "s5"), await inbox(models))
    rebuild = Rebuild(client_of(store), store.keys)
    assert await rebuild.count() == 24
    assert await rebuild.all() == 24
    assert (await snapshot(models, "s5"), await inbox(models)) == before
    pattern, old = "layby:{p*}:proj:1:*", [key async for key in client_of(store).scan("layby:{p*}:proj:*", 100)]
    assert old and [key async for key in client_of(store).scan(pattern, 100)] == []
    verdicts = [verdict async for verdict in Verifier(client_of(store), store.keys).all(TENANT)]
    assert [verdict.broken for verdict in verdicts] == [None] * 24
    await store.delete(TENANT, "s4")
    assert len(await session_ids(models, limit=1_000)) == 23


async def test_deadlines_take_effect_on_every_node(store: EventStore, cluster: Cluster) -> None:
    names = [
        at(cluster, store, node)[0] for node in cluster.nodes if node.client.info("replication")["role"] == "master"
    ]
    for name in names:
        await create(store, name)
        await send(store, ask("c1", expires_in_ms=300), session_id=name)

    async def expired() -> bool:
        calls = [(await store.page(TENANT, name, 1, 100)).lines[-1] for name in names]
        return all(b"input.expired" in line or b"session." in line for line in calls)

    await until(expired)


async def test_tails_hear_what_other_processes_write_on_any_node(
    stores: list[EventStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 60.0)
    writing, reading = stores
    for name in (f"s{n}" for n in range(12)):
        await create(writing, name)
        tail = generator(reading.follow(TENANT, name, 2))
        assert (await anext(tail)).lines == []
        following = asyncio.create_task(anext(tail))
        await send(writing, note("new"), session_id=name)
        assert b"new" in (await asyncio.wait_for(following, 10)).lines[0]
        await tail.aclose()


async def test_scripts_that_one_node_has_forgotten_are_loaded_there(store: EventStore, cluster: Cluster) -> None:
    names = [f"s{n}" for n in range(12)]
    await asyncio.gather(*(create(store, name) for name in names))
    for node in cluster.nodes[:2]:
        node.client.script_flush()
        await asyncio.gather(*(send(store, note(), session_id=name) for name in names))


# A slot moves


async def test_a_slot_may_move_while_it_is_written(
    stores: list[EventStore], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers, a tail in another process, and the read models go on; nothing is lost or doubled."""
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 60.0)
    writing, reading = stores
    await create(writing, "s1")
    slot, seen, over = slot_of(writing, "s1"), list[bytes](), asyncio.Event()

    async def tailing() -> None:
        async for chunk in reading.follow(TENANT, "s1", 2):
            seen.extend(chunk.lines)

    async def writers(name: str) -> list[str]:
        done = list[str]()
        while not over.is_set():
            text = f"{name}-{len(done)}"
            try:
                await send(writing, note(text), retry=key(text))
            except StoreUnavailable:
                continue
            done.append(text)
        return done

    tail = asyncio.create_task(tailing())
    tasks = [asyncio.create_task(writers(f"w{n}")) for n in range(4)]
    for _ in range(4):
        count = len(seen)
        await until(lambda count=count: len(seen) > count + 4, 20)
        owner = await asyncio.to_thread(cluster.owner, slot)
        target = next(n for n in cluster.nodes if n is not owner and n.client.info("replication")["role"] == "master")
        await asyncio.to_thread(cluster.move_slot, slot, target)
    over.set()
    written = [text for done in await asyncio.gather(*tasks) for text in done]
    await until(lambda: len(seen) == len(written), 20)
    tail.cancel()
    found = await texts(writing, "s1")
    assert len(found) == len(written)
    assert all(sum(f'"{text}"'.encode() in line for line in found) == 1 for text in written)
    models = models_of(reading)
    assert await session_ids(models) == ["s1"]


@pytest.mark.parametrize("moved", ["some", "all"])
async def test_a_slot_that_is_half_moved_is_read_and_its_writes_wait(
    store: EventStore, cluster: Cluster, moved: str
) -> None:
    """ASK for what has gone, TRYAGAIN for what is in two places."""
    await create(store, "s1")
    slot = slot_of(store, "s1")
    owner = cluster.owner(slot)
    target = next(n for n in cluster.nodes if n is not owner and n.client.info("replication")["role"] == "master")
    cluster.begin_move(slot, target)
    keys = owner.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
    cluster.move_keys(slot, target, most=None if moved == "all" else len(keys) // 2)
    if moved == "all":
        assert (await store.page(TENANT, "s1", 1, 10)).last_seq == 1
    writing = asyncio.create_task(send(store, note("waited")))
    await asyncio.sleep(0.3)
    assert not writing.done()
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    await writing
    assert len(await texts(store, "s1")) == 1


async def test_a_slot_that_stays_half_moved_is_told_after_a_while(store: EventStore, cluster: Cluster) -> None:
    await create(store, "s1")
    slot = slot_of(store, "s1")
    owner = cluster.owner(slot)
    elsewhere = next(f"x{n}" for n in range(100) if slot_of(store, f"x{n}") != slot)
    target = next(n for n in cluster.nodes if n is not owner and n.client.info("replication")["role"] == "master")
    cluster.begin_move(slot, target)
    cluster.move_keys(slot, target)
    refused = asyncio.create_task(send(store, note("too long")))
    await create(store, elsewhere)
    for n in range(5):
        await send(store, note(n), session_id=elsewhere)
    assert not refused.done(), "others waited for it"
    with pytest.raises(StoreUnavailable):
        await refused
    assert not any(node.down for node in client_of(store).nodes)
    cluster.end_move(slot, target)
    await send(store, note("now"))
    assert len(await texts(store, "s1")) == 1


@pytest.fixture
def pair(tmp_path: Path) -> Generator[Cluster]:
    """Two nodes, for one test: those of all tests would remember what it does to them. A replica of Redis 7.0 takes
    over without a slot that its primary had given up for a moment."""
    with Cluster(tmp_path, primaries=2) as cluster:
        yield cluster


async def test_a_slot_that_nobody_serves_is_no_outage_of_a_node(pair: Cluster) -> None:
    async with opened(pair.url) as (store,):
        await create(store, "s1")
        slot = slot_of(store, "s1")
        owner = pair.owner(slot)
        elsewhere = next(name for name in at(pair, store, owner, "x", 40) if slot_of(store, name) != slot)
        owner.client.execute_command("CLUSTER DELSLOTS", slot)
        with pytest.raises(StoreUnavailable):
            await send(store, note("nowhere"))
        await create(store, elsewhere)
        assert not any(node.down for node in client_of(store).nodes)
        owner.client.execute_command("CLUSTER ADDSLOTS", slot)
        await send(store, note("here"))


async def test_a_slot_of_many_keys_is_moved_whole(pair: Cluster) -> None:
    """Else a proof that moves it ends with a slot that cannot be given away."""
    slot, (first, second) = Cluster.slot("{p00}"), pair.nodes
    owner, target = (first, second) if pair.owner(slot) is first else (second, first)
    for n in range(250):
        owner.client.set(f"{{p00}}{n}", n)
    pair.move_slot(slot, target)
    assert (owner.client.dbsize(), target.client.dbsize()) == (0, 250)


# A node goes


async def test_a_primary_that_is_killed_holds_up_nobody_else_and_its_replica_goes_on(
    stores: list[EventStore], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 60.0)
    store, other = stores
    await create(store, "s1")
    victim = cluster.owner(slot_of(store, "s1"))
    (away,) = at(cluster, store, victim, "v")
    elsewhere = [at(cluster, store, node)[0] for node in cluster.nodes if node is not victim and _leads(node)]
    for name in (away, *elsewhere):
        await create(store, name)
    tail = generator(other.follow(TENANT, "s1", 2))
    await anext(tail)
    following = asyncio.create_task(anext(tail))
    await asyncio.to_thread(cluster.kill_primary, slot_of(store, "s1"))
    failed = [asyncio.create_task(_until_sent(store, name)) for name in ("s1", away)]
    done = 0
    while not all(task.done() for task in failed):
        answers = await asyncio.gather(*(send(store, note(), session_id=name) for name in elsewhere))
        assert {answer.durability for answer in answers} == {"fsync"}
        done += 1
    assert done > 3, "nothing could be written elsewhere until the replica had taken over"
    await asyncio.gather(*failed)
    assert b"at last" in (await asyncio.wait_for(following, 20)).lines[0]
    await tail.aclose()
    await send(store, ask("c1", expires_in_ms=200))
    await until(lambda: _last_of(store, "s1", b"input.expired"))
    models = models_of(other)
    await until(lambda: _listed(models, {"s1", away, *elsewhere}), 20)


async def test_a_primary_that_hangs_holds_up_nobody_else(store: EventStore, cluster: Cluster) -> None:
    await create(store, "s1")
    victim = cluster.owner(slot_of(store, "s1"))
    elsewhere = [at(cluster, store, node)[0] for node in cluster.nodes if node is not victim and _leads(node)]
    for name in elsewhere:
        await create(store, name)
    victim.freeze()
    try:
        hanging = [
            asyncio.create_task(_until_sent(store, "s1")),
            asyncio.create_task(_until_served(lambda: store.page(TENANT, "s1", 1, 1))),
        ]
        began = time.monotonic()
        for _ in range(20):
            await asyncio.gather(*(send(store, note(), session_id=name) for name in elsewhere))
            await asyncio.gather(*(store.page(TENANT, name, 1, 1) for name in elsewhere))
        assert not any(task.done() for task in hanging) or time.monotonic() - began > 2
        await asyncio.gather(*hanging)
    finally:
        victim.thaw()


async def test_what_replicas_do_not_confirm_is_not_claimed(cluster: Cluster) -> None:
    async with opened(cluster.url, durability=Durability("replicated", 1)) as (store,):
        await skip_without_waitaof(client_of(store).client)
        await create(store, "s1")
        await until(lambda: _reaches(store, "s1", "replicated"))
        owner = cluster.owner(slot_of(store, "s1"))
        replicas = [node for node in cluster.nodes if node is not owner and not _leads(node)]
        mine = [node for node in replicas if node.client.info("replication")["master_port"] == owner.port]
        for node in mine:
            node.kill()
        assert (await send(store, note())).durability == "fsync"
        elsewhere = next(f"x{n}" for n in range(100) if cluster.owner(slot_of(store, f"x{n}")) is not owner)
        await create(store, elsewhere)
        await until(lambda: _reaches(store, elsewhere, "replicated"))


async def _until_sent(store: EventStore, session_id: str) -> None:
    await _until_served(lambda: send(store, note("at last"), session_id=session_id, retry=key("at last")))


async def _until_served(ask_once: Callable[[], Awaitable[object]]) -> None:
    """A replica may take longer to take over than one request is tried for."""
    while True:
        try:
            await ask_once()
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        else:
            return


async def _reaches(store: EventStore, session_id: str, durability: str) -> bool:
    """Sooner or later: on a busy machine a replica may take longer than it is waited for."""
    return (await send(store, note(), session_id=session_id)).durability == durability


async def _last_of(store: EventStore, session_id: str, kind: bytes) -> bool:
    return any(kind in line for line in (await store.page(TENANT, session_id, 1, 1000)).lines)


async def _listed(models: ReadModels, names: set[str]) -> bool:
    try:
        return set(await session_ids(models)) == names
    except StoreUnavailable:
        return False


def _leads(node: Any) -> bool:
    return node.alive and node.client.info("replication")["role"] == "master"


# The start


async def test_one_node_of_several_is_no_store(cluster: Cluster) -> None:
    with pytest.raises(OneOfSeveral, match=r"redis\+cluster://"):
        await open_at(cluster.nodes[0].url, chosen())


async def test_an_engine_that_is_unfit_is_named(cluster: Cluster) -> None:
    node = cluster.owner(0)
    node.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(EvictingEngine, match=f"127.0.0.1:{node.port} has maxmemory-policy allkeys-lru"):
            await open_at(cluster.url, chosen())
    finally:
        node.client.config_set("maxmemory-policy", "noeviction")


async def test_a_user_that_lacks_rights_on_one_node_is_told_of_that_node(cluster: Cluster) -> None:
    node = cluster.owner(0)
    for each in cluster.nodes:
        more = ["-xadd"] if each is node else []
        each.client.execute_command("ACL SETUSER", "ann", "reset", "on", ">secret", "~*", "&*", "+@all", *more)
    try:
        with pytest.raises(RightsMissing, match=f"127.0.0.1:{node.port}.*-p {node.port} ACL SETUSER ann") as refused:
            await open_at(cluster.url.replace("//", "//ann:secret@"), chosen())
        assert "secret" not in str(refused.value)
    finally:
        for each in cluster.nodes:
            each.client.execute_command("ACL DELUSER", "ann")


async def test_a_replica_that_should_not_take_over_is_warned_of(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    node = next(node for node in cluster.nodes if not _leads(node))
    node.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        async with opened(cluster.url):
            assert f"the replica 127.0.0.1:{node.port} should not take over" in caplog.text
    finally:
        node.client.config_set("maxmemory-policy", "noeviction")
