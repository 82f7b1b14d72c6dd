"""A server that is full, that would evict, or that has no memory of our scripts. Real ones only."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from eventstore.api_keys.keyring import REVOKE
from eventstore.commit.records import Head, decode_head, delete_call, load_call
from eventstore.domain.errors import StoreFull
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.preflight import NEEDED, EvictingEngine, RightsMissing, check_engine
from eventstore.redis_client.scripts import ScriptCall
from tests.architecture.tree import scripts, text
from tests.scripts.engines import HeldEngine
from tests.scripts.given import FEED_KEEP, S1, Server, first, following

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
    assert (await full.read(1))[8:] == [b"one"]
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


async def test_a_full_server_lets_a_session_be_deleted_to_make_room(full: Server) -> None:
    head = await stored_head(full)
    word, *_ = await full.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    assert word == b"ok"
    assert (await stored_head(full)).deleted


async def test_a_full_server_lets_a_key_be_revoked(full: Server) -> None:
    await full.client.config_set("maxmemory", "0")
    await full.client.hset("layby:keys", "name", "id")
    await full.client.config_set("maxmemory", "1mb")
    revoke = ScriptCall(REVOKE, ["layby:keys"], ["name", "id", "revoked", "2"])
    assert await full.connection.run(revoke) == [b"ok"]
    assert await full.client.hget("layby:keys", "name") is None
    await full.client.delete("layby:keys")


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


@asynccontextmanager
async def limited(engine: HeldEngine, server: Server, *rules: str) -> AsyncGenerator[RedisClient]:
    """A connection as a user of whom these rules hold."""
    await server.client.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">secret", *rules)
    connection = RedisClient(engine.url.replace("unix://", "unix://limited:secret@"))
    try:
        yield connection
    finally:
        await connection.close()
        await server.client.execute_command("ACL", "DELUSER", "limited")


async def test_what_is_written_is_acknowledged_although_it_may_not_be_announced(
    engine: HeldEngine, valkey: Server
) -> None:
    async with limited(engine, valkey, "~*", "+@all", "resetchannels") as connection:
        commit = await first(valkey)
        assert (await connection.run(commit.script_call(FEED_KEEP)))[0] == b"ok"
        assert (await connection.run(delete_call(S1, commit.head, FEED_KEEP, "token")))[0] == b"ok"


@pytest.mark.parametrize(
    ("rules", "mending"),
    [
        (["~*", "+@all", "resetchannels"], " '&layby:*' +spublish +ssubscribe '&__keyevent@*__:expired' +psubscribe"),
        (["~*", "+@all", "&layby:*"], " '&__keyevent@*__:expired' +psubscribe"),
        (["~other:*", "&*", "+@all"], " '~layby:*' +hsetnx"),
        (
            ["~other:*", "+@all"],
            " '~layby:*' +hsetnx '&layby:*' +spublish +ssubscribe '&__keyevent@*__:expired' +psubscribe",
        ),
        (["~*", "&*", "+@all", "-zadd", "-xadd", "-spublish"], " +spublish +xadd +zadd"),
        (["~*", "&*", "+@all", "-evalsha"], " +evalsha"),
        (["~*", "&*", "+@all", "-script"], " '+script|load'"),
        (["~*", "&*", "+@all", "-info"], " +info"),
    ],
)
async def test_a_user_that_lacks_a_right_is_told_at_the_start_with_the_command_that_mends_it(
    engine: HeldEngine, valkey: Server, rules: list[str], mending: str
) -> None:
    await valkey.client.script_flush()
    async with limited(engine, valkey, *rules) as connection:
        with pytest.raises(RightsMissing, match="Redis does not let user limited do") as refused:
            await check_engine(connection)
        assert "\n" not in str(refused.value)
        mend = str(refused.value).partition("; run: redis-cli ")[2]
        assert mend == f"ACL SETUSER limited{mending}"
        await valkey.client.execute_command(*shlex.split(mend))
        await check_engine(connection)


async def test_rights_are_asked_without_a_trace(valkey: Server) -> None:
    await check_engine(valkey.connection)
    assert await valkey.dump() == {}


def test_the_rights_of_every_script_are_asked_for() -> None:
    used = {name for path in scripts() for name in re.findall(r"redis\.p?call\('([A-Z]+)'", text(path))}
    assert used - {command.split(" ")[0] for group in NEEDED.values() for command in group} == set()
