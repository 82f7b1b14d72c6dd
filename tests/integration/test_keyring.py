"""The keyring on a real engine: one name, one live key; and what a process knows when the store is away."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from eventstore.api_keys import keyring as keyrings
from eventstore.api_keys.cache import KeyringCache
from eventstore.api_keys.keyring import Keyring, KeyringReading, NameTaken, NoSuchKey
from eventstore.domain import api_keys
from eventstore.domain.api_keys import WrongWord
from eventstore.domain.errors import StoreUnavailable
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.clock import EngineClock
from eventstore.redis_client.durability import Confirmation
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import KEYRING
from eventstore.settings import Durability
from eventstore.support.timing import Timing
from proofs.proxy import Proxy
from tests.integration.stores import QUICK, hash_fields, skip_without_waitaof, until
from tests.scripts.engines import HeldEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def connection(engine: HeldEngine, redis: Redis) -> AsyncGenerator[RedisClient]:
    found = RedisClient(engine.url)
    yield found
    await found.command("DEL", KEYRING)
    await found.close()


@pytest.fixture
def keyring(connection: RedisClient) -> Keyring:
    return Keyring(connection)


def copy_of(keyring: Keyring) -> KeyringCache:
    return KeyringCache(keyring, EngineClock())


async def test_a_key_is_found_by_its_id_and_known_by_its_hash(keyring: Keyring, redis: Redis):
    key, text = await keyring.create("svc", ["read"], "acme", lives_ms=60_000)
    reading = await keyring.read()
    assert reading.keys == {key.key_id: key} and api_keys.id_of(text) == key.key_id and key.opens_for(text)
    assert key.expires_at == key.created_at + 60_000 and abs(reading.now - key.created_at) < 60_000
    stored = b"".join(part for pair in (await hash_fields(redis, KEYRING)).items() for part in pair)
    assert text.rsplit("_", 1)[1].encode() not in stored


async def test_of_many_at_once_one_gets_the_name(engine: HeldEngine, keyring: Keyring):
    others = [RedisClient(engine.url) for _ in range(4)]
    work = [Keyring(other).create("svc", ["read"]) for other in others * 4]
    made = await asyncio.gather(*work, return_exceptions=True)
    assert sum(isinstance(one, NameTaken) for one in made) == 15
    assert len((await keyring.read()).keys or {}) == 1
    for other in others:
        await other.close()


async def test_a_name_is_of_one_tenant(keyring: Keyring):
    await keyring.create("svc", ["read"], "acme")
    await keyring.create("svc", ["read"], "bolt")
    with pytest.raises(NoSuchKey):
        await keyring.revoke("svc")
    await keyring.revoke("svc", "acme")
    assert sorted(key.revoked_at is None for key in ((await keyring.read()).keys or {}).values()) == [False, True]


async def test_a_name_is_free_again_once_its_key_is_revoked_or_has_expired(keyring: Keyring):
    first, _ = await keyring.create("svc", ["read"])
    revoked = await keyring.revoke("svc")
    assert revoked.key_id == first.key_id and revoked.revoked_at is not None
    second, _ = await keyring.create("svc", ["read"], lives_ms=1)

    async def create() -> bool:
        try:
            await keyring.create("svc", ["publish"])
        except NameTaken:
            return False
        return True

    await until(create)
    keys = (await keyring.read()).keys or {}
    assert len(keys) == 3 and {first.key_id, second.key_id} < keys.keys(), "the records stay"
    with pytest.raises(NameTaken):
        await keyring.create("svc", ["publish"])


async def test_the_version_changes_with_every_change_and_with_no_look(keyring: Keyring):
    versions = [(await keyring.read()).version]
    await keyring.create("svc", ["read"])
    versions.append((await keyring.read()).version)
    await keyring.revoke("svc")
    versions.append((await keyring.read()).version)
    assert versions[0] == "" and len(set(versions)) == 3
    assert (await keyring.read(versions[2])).keys is None
    for refused in (keyring.revoke("svc"), keyring.create("a b", ["read"]), keyring.create("svc", ["fly"])):
        with pytest.raises((NoSuchKey, WrongWord)):
            await refused
    assert (await keyring.read()).version == versions[2]


async def test_a_repeated_script_changes_nothing(connection: RedisClient, keyring: Keyring):
    """What happens when an answer is lost; also when somebody else has revoked the key meanwhile."""
    key, _ = await keyring.create("svc", ["read"])
    holder = await connection.command("HGET", KEYRING, "name:default/svc")
    enrol = ScriptCall(
        keyrings.CREATE, [KEYRING], ["name:default/svc", holder, f"key:{key.key_id}", key.record(), "again"]
    )
    assert await connection.run(enrol) == [b"ok"]
    await keyring.revoke("svc")
    before = await keyring.read()
    assert await connection.run(enrol) == [b"ok"]
    revoke = ScriptCall(keyrings.REVOKE, [KEYRING], ["name:default/svc", holder, f"revoked:{key.key_id}", "again"])
    assert await connection.run(revoke) == [b"ok"]
    after = await keyring.read()
    assert (before.version, before.keys) == (after.version, after.keys)


async def test_a_copy_is_shut_from_the_first_key_on(keyring: Keyring, caplog: pytest.LogCaptureFixture):
    copy = copy_of(keyring)
    with pytest.raises(StoreUnavailable):
        assert copy.open
    await copy.read()
    assert copy.open
    key, _ = await keyring.create("svc", ["read"])
    await copy.read()
    assert not copy.open and copy.find(key.key_id) == key and copy.live == 1
    await keyring.revoke("svc")
    await copy.read()
    assert not copy.open and copy.find(key.key_id) is None and copy.live == 0
    assert caplog.messages == ["the store has its first key: from now on nothing gets in without one"]


async def test_a_key_expires_without_a_look(keyring: Keyring):
    key, _ = await keyring.create("svc", ["read"], lives_ms=300)
    copy = copy_of(keyring)
    await copy.read()
    await until(lambda: copy.find(key.key_id) is None)
    assert not copy.open


async def test_a_key_is_judged_by_the_engine_that_has_it_now(keyring: Keyring, monkeypatch: pytest.MonkeyPatch):
    """The clock of the engine before was an hour ahead."""
    key, _ = await keyring.create("svc", ["read"], lives_ms=600_000)
    copy, read = copy_of(keyring), keyring.read

    async def ahead(known: str = "") -> KeyringReading:
        reading = await read(known)
        return replace(reading, now=reading.now + 3_600_000)

    with monkeypatch.context() as before:
        before.setattr(keyring, "read", ahead)
        await copy.read()
    assert copy.find(key.key_id) is None
    await copy.read()
    assert copy.find(key.key_id) == key


async def test_while_the_store_is_away_the_last_keys_count(keyring: Keyring, proxy: Proxy):
    key, _ = await keyring.create("svc", ["read"])
    through = RedisClient(proxy.url, timing=QUICK)
    copy = copy_of(Keyring(through))
    await copy.read()
    await proxy.down()
    with pytest.raises(StoreUnavailable):
        await copy.read()
    assert not copy.open and copy.find(key.key_id) == key
    never = copy_of(Keyring(through))
    with pytest.raises(StoreUnavailable):
        await never.read()
    with pytest.raises(StoreUnavailable):
        assert never.open
    await proxy.up()
    await through.close()


async def test_a_store_that_comes_back_empty_opens_nothing(keyring: Keyring, redis: Redis, caplog):
    key, _ = await keyring.create("svc", ["read"])
    stored = await hash_fields(redis, KEYRING)
    copy = copy_of(keyring)
    await copy.read()
    await redis.delete(KEYRING)
    for _ in range(3):
        await copy.read()
    assert not copy.open and copy.find(key.key_id) is None
    assert len([record for record in caplog.records if "lost its keys" in record.getMessage()]) == 1
    await redis.hset(KEYRING, mapping={**stored})
    await copy.read()
    assert copy.find(key.key_id) == key, "and when they are there again, so are they here"


async def test_a_copy_follows_by_itself(keyring: Keyring):
    copy = KeyringCache(keyring, EngineClock(), Timing(keys_read_every_s=0.05))
    await copy.read()
    task = asyncio.create_task(copy.run())
    key, _ = await keyring.create("svc", ["read"])
    await until(lambda: copy.find(key.key_id) is not None)
    await keyring.revoke("svc")
    await until(lambda: copy.find(key.key_id) is None)
    task.cancel()


# What a change has reached


@pytest.mark.parametrize(("wanted", "reached"), [("memory", "memory"), ("fsync", "fsync"), ("replicated:1", "fsync")])
async def test_a_change_tells_what_the_engine_has_confirmed(connection: RedisClient, wanted: str, reached: str):
    if wanted != "memory":
        await skip_without_waitaof(connection.client)
    asked = Confirmation(Durability.parse(wanted), synced=False, can_wait=True)
    keyring = Keyring(connection, asked)
    assert keyring.reached is None
    await keyring.create("svc", ["read"])
    assert keyring.reached == reached
    keyring.reached = None
    await keyring.revoke("svc")
    assert keyring.reached == reached


LAYBY = "from cli.main import main; from eventstore.support.timing import Timing; main(Timing(keys_followed_after_s=0))"


def layby_keys(url: str, wanted: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_")}
    command = [sys.executable, "-c", LAYBY, "keys", *arguments, "--redis-url", url]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**known, "LAYBY_DURABILITY": wanted}
    )


async def test_an_operator_hears_of_a_change_that_may_be_undone(engine: HeldEngine, keyring: Keyring):
    create = ("create", "--name", "svc", "--scopes", "read", "--json")
    revoke = ("revoke", "--name", "svc")
    for arguments in (create, revoke):
        done = await asyncio.to_thread(layby_keys, engine.url, "replicated:1", *arguments)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 0 and "reached fsync, and not replicated:1" in line
        if arguments is create:
            assert json.loads(done.stdout).keys() == {"name", "key", "scopes", "tenant", "expires_at"}
    for arguments in (create, revoke):
        done = await asyncio.to_thread(layby_keys, engine.url, "fsync", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
