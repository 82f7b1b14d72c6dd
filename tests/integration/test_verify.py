"""`layby verify`: whatever is changed behind our back is found, and nothing else is taken for a change."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from eventstore.api_keys.keyring import Keyring
from eventstore.domain.commands import CreateSession
from eventstore.domain.events import GENESIS, chain
from eventstore.embedded.engine import EmbeddedEngine
from eventstore.event_store import EventStore
from eventstore.log import hash_chain
from eventstore.log.hash_chain import Verdict, Verifier
from eventstore.redis_keys import KEYRING, SessionKeys
from tests.integration.stores import TENANT, chosen, client_of, close, create, hash_fields, note, open_at, send, stream
from tests.scripts.engines import HeldEngine
from tests.unit.domain.given import AGENT

pytestmark = pytest.mark.anyio
Change = Callable[[Redis, SessionKeys], Awaitable[object]]


@pytest.fixture
async def keys(store: EventStore, redis: Redis) -> AsyncGenerator[SessionKeys]:
    """A session of ten events, which may be broken afterwards."""
    await create(store)
    await send(store, *(note(n) for n in range(9)))
    yield store.session_keys(TENANT, "s1")
    await redis.flushall()


async def look(store: EventStore, session_id: str = "s1") -> Verdict:
    return await Verifier(client_of(store), store.keys).one(TENANT, session_id)


async def entry(redis: Redis, keys: SessionKeys, seq: int) -> dict[bytes, bytes]:
    ((_, fields),) = await stream(redis, keys.events, f"{seq}-0", f"{seq}-0")
    return fields


async def rewrite(redis: Redis, keys: SessionKeys, changed: dict[int, dict[bytes, bytes]]) -> None:
    """The log anew, with some entries changed: a stream takes no change in place."""
    entries = await stream(redis, keys.events)
    await redis.delete(keys.events)
    for seq, (entry_id, fields) in enumerate(entries, 1):
        await redis.xadd(keys.events, {**fields, **changed.get(seq, {})}, id=entry_id)


async def one_byte(redis: Redis, keys: SessionKeys) -> None:
    line = (await entry(redis, keys, 5))[b"e"]
    await rewrite(redis, keys, {5: {b"e": line.replace(b'"text":3', b'"text":8')}})


async def one_hash(redis: Redis, keys: SessionKeys) -> None:
    await rewrite(redis, keys, {5: {b"h": b"0" * 64}})


async def one_line_with_its_hash(redis: Redis, keys: SessionKeys) -> None:
    """Somebody who knows how the hash is made, but changes one event alone."""
    before = (await entry(redis, keys, 4))[b"h"].decode()
    line = (await entry(redis, keys, 5))[b"e"].replace(b'"text":3', b'"text":8')
    await rewrite(redis, keys, {5: {b"e": line, b"h": chain(before, line).encode()}})


async def rechain(redis: Redis, keys: SessionKeys, change: Callable[[bytes], bytes], seq: int = 5) -> None:
    """Somebody who makes every later hash anew as well."""
    hash_, changed = GENESIS, dict[int, dict[bytes, bytes]]()
    for number, (_, fields) in enumerate(await stream(redis, keys.events), 1):
        line = change(fields[b"e"]) if number == seq else fields[b"e"]
        hash_ = chain(hash_, line)
        changed[number] = {b"e": line, b"h": hash_.encode()}
    await rewrite(redis, keys, changed)


async def head_hash(redis: Redis, keys: SessionKeys) -> None:
    state = (await hash_fields(redis, keys.head))[b"state"]
    newest = (await entry(redis, keys, 10))[b"h"]
    await redis.hset(keys.head, "state", state.replace(newest, b"f" * 64))


async def another_kind(redis: Redis, keys: SessionKeys) -> None:
    await redis.delete(keys.events)
    await redis.set(keys.events, "x")


FAULTS: dict[str, tuple[Change, int, str]] = {
    "a byte of a line": (one_byte, 5, "does not match its hash"),
    "a hash": (one_hash, 5, "does not match its hash"),
    "a line and its hash": (one_line_with_its_hash, 6, "does not match its hash"),
    "a line and all hashes": (lambda r, k: rechain(r, k, lambda e: e + b" "), 10, "the head holds another hash"),
    "a number and all hashes": (
        lambda r, k: rechain(r, k, lambda e: e.replace(b'"seq":5', b'"seq":6')),
        5,
        "another sequence number",
    ),
    "an entry gone": (lambda r, k: r.xdel(k.events, "5-0"), 5, "missing; the log goes on with entry 6-0"),
    "the first entry gone": (lambda r, k: r.xdel(k.events, "1-0"), 1, "missing"),
    "the newest entry gone": (lambda r, k: r.xdel(k.events, "10-0"), 10, "missing; the head is at 10"),
    "the beginning trimmed": (lambda r, k: r.xtrim(k.events, maxlen=3, approximate=False), 1, "missing"),
    "everything trimmed": (lambda r, k: r.xtrim(k.events, maxlen=0, approximate=False), 1, "missing"),
    "the log gone": (lambda r, k: r.delete(k.events), 1, "missing"),
    "the log of another kind": (another_kind, 1, "wrong kind"),
    "an entry too many": (lambda r, k: r.xadd(k.events, {"e": "x", "h": "y"}, id="11-0"), 11, "its hash"),
    "an entry in between": (lambda r, k: r.xadd(k.events, {"e": "x", "h": "y"}, id="10-1"), 11, "missing"),
    "an entry without a line": (lambda r, k: rewrite(r, k, {5: {b"e": b""}}), 5, "its hash"),
    "the hash of the head": (head_hash, 10, "the head holds another hash"),
    "the number of the head, back": (lambda r, k: r.hset(k.head, "seq", 8), 9, "the log goes on to 10"),
    "the number of the head, forward": (lambda r, k: r.hset(k.head, "seq", 12), 11, "missing; the head is at 12"),
    "the state of the head": (lambda r, k: r.hset(k.head, "state", "{"), 0, "cannot be read"),
    "the head gone": (lambda r, k: r.delete(k.head), 10, "the head is missing"),
    "the session out of the index": (lambda r, k: r.zrem(k.partition.sessions, k.member), 10, "in the index"),
    "head and log gone": (lambda r, k: r.delete(k.head, k.events), 0, "the head is missing"),
}


async def test_what_nobody_has_changed_is_intact(store: EventStore, keys: SessionKeys) -> None:
    assert await look(store) == Verdict("s1", "intact", 10)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_change_is_found_where_it_was_made(
    store: EventStore, redis: Redis, keys: SessionKeys, fault: str
) -> None:
    change, seq, why = FAULTS[fault]
    await change(redis, keys)
    verdict = await look(store)
    assert verdict.broken, "nothing was found"
    assert (verdict.state, verdict.broken.seq) == ("broken", seq)
    assert why in verdict.broken.why


@pytest.mark.parametrize("page", [1, 3, 10, 1000])
async def test_pages_of_any_size_find_the_same(
    store: EventStore, redis: Redis, keys: SessionKeys, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "LONGEST_PAGE", page)
    monkeypatch.setattr(hash_chain._Walk, "__init__", _walk_with(page))
    assert (await look(store)).events == 10
    await one_byte(redis, keys)
    verdict = await look(store)
    assert verdict.broken
    assert verdict.broken.seq == 5


def _walk_with(count: int) -> Callable[[hash_chain._Walk], None]:
    def init(self: hash_chain._Walk) -> None:
        self.seq, self.hash, self.count = 0, GENESIS, count

    return init


async def test_a_deleted_session_is_neither_intact_nor_broken(store: EventStore, keys: SessionKeys) -> None:
    await store.delete(TENANT, "s1")
    assert (await look(store)).state == "deleted"
    assert (await look(store, "never")).state == "absent"


async def test_a_log_that_comes_back_after_its_deletion_is_found(
    store: EventStore, redis: Redis, keys: SessionKeys
) -> None:
    await store.delete(TENANT, "s1")
    await redis.xadd(keys.events, {"e": "x"}, id="1-0")
    assert (await look(store)).state == "broken"


async def test_sessions_that_are_written_and_deleted_meanwhile_do_not_look_broken(
    store: EventStore, other: EventStore
) -> None:
    names = [f"s{n}" for n in range(12)]
    over = asyncio.Event()

    async def writing(name: str) -> None:
        await create(store, name)
        while not over.is_set():
            await send(store, *(note() for _ in range(40)), session_id=name)

    async def deleting() -> None:
        for name in [f"gone{n}" for n in range(40)]:
            await create(store, name)
            await send(store, *(note() for _ in range(100)), session_id=name)
            await store.delete(TENANT, name)

    writers = [asyncio.create_task(writing(name)) for name in names]
    deleter = asyncio.create_task(deleting())
    try:
        verifier = Verifier(client_of(other), other.keys)
        for _ in range(3):
            broken = [verdict async for verdict in verifier.all(TENANT) if verdict.broken]
            assert broken == []
    finally:
        over.set()
        await asyncio.gather(deleter, *writers)


async def test_every_session_of_the_tenant_is_looked_at_and_no_other(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "INDEX_PAGE", 3)
    names = [f"s:{n}" for n in range(40)]
    for name in names:
        await create(store, name)
    for tenant in ("default0", "default/x", "other"):
        await store.execute(tenant, "theirs", CreateSession("theirs"), AGENT)
    verifier = Verifier(client_of(store), store.keys)
    assert sorted([verdict.session_id async for verdict in verifier.all(TENANT)]) == sorted(names)
    assert [verdict.session_id async for verdict in verifier.all("default/x")] == ["theirs"]
    assert await verifier.count(TENANT) == 40


# The command


def layby(*arguments: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_")}
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "verify", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=known,
    )


async def test_the_command_says_what_is_intact(engine: HeldEngine, store: EventStore, keys: SessionKeys) -> None:
    await create(store, "s2")
    done = await asyncio.to_thread(layby, "--redis-url", engine.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 sessions, 11 events: intact\n", "")
    done = await asyncio.to_thread(layby, "s1", "--redis-url", engine.url)
    assert (done.returncode, done.stdout) == (0, "1 session, 10 events: intact\n")


async def test_the_command_names_each_broken_session_and_where(
    engine: HeldEngine, store: EventStore, redis: Redis, keys: SessionKeys
) -> None:
    for name in ("s2", "s3"):
        await create(store, name)
    await one_byte(redis, keys)
    await redis.delete(store.session_keys(TENANT, "s3").events)
    done = await asyncio.to_thread(layby, "--redis-url", engine.url)
    assert (done.returncode, done.stderr) == (1, "")
    *broken, summary = done.stdout.splitlines()
    assert sorted(broken) == [
        "s1 is broken at seq 5: the event does not match its hash",
        "s3 is broken at seq 1: the event is missing; the head is at 1",
    ]
    assert summary == "3 sessions, 5 events: 2 sessions broken"


async def test_a_session_that_is_not_there_is_exit_code_2(
    engine: HeldEngine, store: EventStore, keys: SessionKeys
) -> None:
    done = await asyncio.to_thread(layby, "never", "--redis-url", engine.url)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "layby: there is no session never\n")
    done = await asyncio.to_thread(layby, "s1", "--tenant", "other", "--redis-url", engine.url)
    assert done.returncode == 2
    await store.delete(TENANT, "s1")
    done = await asyncio.to_thread(layby, "s1", "--redis-url", engine.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "was deleted" in done.stderr


async def test_a_tenant_that_nobody_knows_is_exit_code_2(engine: HeldEngine, store: EventStore, redis: Redis) -> None:
    await Keyring(client_of(store)).create("svc", ["read"], "acme")
    done = await asyncio.to_thread(layby, "--tenant", "amce", "--redis-url", engine.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("layby: there is no tenant amce: ") and done.stderr.count("\n") == 1
    for known in ("acme", "default"):
        done = await asyncio.to_thread(layby, "--tenant", known, "--redis-url", engine.url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "0 sessions, 0 events: intact\n", ""), known
    await redis.delete(KEYRING)


async def test_a_store_that_cannot_be_reached_is_exit_code_2(tmp_path: Path, redis: Redis, engine: HeldEngine) -> None:
    for arguments, word in (
        (("--redis-url", f"unix://{tmp_path}/nothing.sock"), "does not answer"),
        (("--data-dir", str(tmp_path / "empty")), "no Layby data"),
        (("--redis-url", engine.url), "no Layby data"),
    ):
        done = await asyncio.to_thread(layby, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert (line[:7], word in line) == ("layby: ", True)
    assert await redis.dbsize() == 0, "looking has changed the store"


async def test_it_works_offline_and_beside_a_running_server(tmp_path: Path) -> None:
    held = EmbeddedEngine(tmp_path)
    store = await open_at(await held.start(), chosen())
    try:
        await create(store)
        await send(store, note(), note())
        beside = await asyncio.to_thread(layby, "--data-dir", str(tmp_path))
    finally:
        await close(store)
        await held.stop()
    offline = await asyncio.to_thread(layby, "--data-dir", str(tmp_path))
    for done in (beside, offline):
        assert (done.returncode, done.stdout, done.stderr) == (0, "1 session, 3 events: intact\n", "")
