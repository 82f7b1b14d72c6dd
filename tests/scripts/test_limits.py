"""A server that is full, that would evict, or that has no memory of our scripts. Real ones only."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from eventstore.domain.errors import StoreFull
from eventstore.fitness import EvictingEngine, check_engine
from eventstore.store import Head, decode_head, delete_call, load_call
from tests.scripts.bench import FEED_KEEP, S1, Server, first, following

pytestmark = pytest.mark.anyio


@pytest.fixture
async def full(valkey: Server) -> AsyncGenerator[Server]:
    """A server with one session, and no memory left."""
    await valkey.ok(await first(valkey))
    await valkey.connection.run(load_call(S1))
    await valkey.client.config_set("maxmemory", "1mb")
    yield valkey
    await valkey.client.config_set("maxmemory", "0")


async def test_a_full_server_refuses_a_commit_before_anything_is_written(full: Server) -> None:
    commit = following(await stored_head(full), *["two", "x" * 1000], at=await full.now())
    before = await full.dump()
    with pytest.raises(StoreFull):
        await full.put(commit)
    assert await full.dump() == before


async def test_a_full_server_still_reads(full: Server) -> None:
    assert (await full.read(1))[6:] == [b"one"]
    assert (await full.load())[1][1] == b"1"


async def test_a_full_server_refuses_among_others_only_what_writes(full: Server) -> None:
    commit = following(await stored_head(full), "two", at=await full.now())
    read, written = await full.connection.run_all([load_call(S1), commit.script_call(FEED_KEEP)])
    assert read[1][1] == b"1"
    assert isinstance(written, StoreFull)


async def test_a_server_that_has_memory_again_takes_the_same_commit(full: Server) -> None:
    commit = following(await stored_head(full), "two", at=await full.now())
    with pytest.raises(StoreFull):
        await full.put(commit)
    await full.client.config_set("maxmemory", "0")
    await full.ok(commit)


async def stored_head(server: Server) -> Head:
    return decode_head("s1", (await server.load())[1])


@pytest.mark.parametrize("policy", ["volatile-lru", "allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_server_that_would_evict_is_refused_with_the_command_that_mends_it(valkey: Server, policy: str) -> None:
    await valkey.client.config_set("maxmemory-policy", policy)
    try:
        with pytest.raises(EvictingEngine, match="CONFIG SET maxmemory-policy noeviction") as refused:
            await check_engine(valkey.connection)
    finally:
        await valkey.client.config_set("maxmemory-policy", "noeviction")
    assert policy in str(refused.value)
    await check_engine(valkey.connection)


async def test_scripts_are_loaded_again_when_the_server_has_forgotten_them(valkey: Server) -> None:
    head = await valkey.ok(await first(valkey))
    await valkey.client.script_flush()
    commit = following(head, "two", at=head.session.time)
    replies = await valkey.connection.run_all([load_call(S1), commit.script_call(FEED_KEEP), load_call(S1)])
    assert [replies[0][1][1], replies[1][0], replies[2][1][1]] == [b"1", b"ok", b"2"]
    await valkey.client.script_flush()
    deletion = delete_call(S1, commit.head, FEED_KEEP, "token")
    assert (await valkey.connection.run(deletion))[0] == b"ok"
