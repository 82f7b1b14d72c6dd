"""Every key that a script touches is declared, and they all lie in one slot.

A cluster refuses keys of several slots. An ACL user that may touch nothing but the declared keys finds the rest: a
script runs with the rights of its caller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from redis.exceptions import ResponseError

from eventstore.commit.batch import Retry
from eventstore.commit.idempotency_keys import hold_call
from eventstore.commit.records import delete_call, load_call, read_call
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from tests.scripts import leaks
from tests.scripts.given import FEED_KEEP, HOUR, KEYS, S1, Server, first, following
from tests.unit.domain.given import ask, given

pytestmark = pytest.mark.anyio
PROBE = "probe"


@pytest.fixture
async def node(cluster_url: str) -> AsyncGenerator[Server]:
    connection = RedisClient(cluster_url)
    await connection.client.flushall()
    server = Server(connection, real=True)
    yield server
    await leaks.check(server.client, KEYS)
    await connection.close()


async def run_with_declared_keys_alone(server: Server, url: str, call: ScriptCall) -> list[object]:
    rules = [f"%RW~{key}" for key in call.keys]
    await server.client.execute_command(
        "ACL", "SETUSER", PROBE, "reset", "on", "nopass", "+@all", *rules, f"&{S1.partition.wake}"
    )
    probe = RedisClient(url.replace("redis://", f"redis://{PROBE}:x@"))
    try:
        return await probe.run(call)
    finally:
        await probe.close()


async def test_every_script_runs_on_a_cluster_with_its_declared_keys_alone(node: Server, cluster_url: str) -> None:
    now = await node.now()
    call = given(ask("c1")).call()
    commit = await first(
        node, "one", calls={"c1": call}, records={"k": "{}"}, waiting={"c1": now + HOUR, "c2": now + HOUR}
    )
    after = following(commit.head, "two", waiting={"c2": now + HOUR}, records={"old": "{}"})
    retry, place = Retry("field", "body"), KEYS.session("default", "elsewhere")
    runs = [
        (hold_call(place, retry, "s1", HOUR), b"held"),
        (hold_call(place, retry, "s1", 0), b"free"),
        (hold_call(place, retry, "s1", HOUR), b"held"),
        (commit.script_call(FEED_KEEP), b"ok"),
        (after.script_call(FEED_KEEP), b"ok"),
        (commit.script_call(FEED_KEEP), b"replay"),
        (hold_call(S1, retry, "s1", HOUR), b"taken"),
        (load_call(S1, ["c1"], ["k"]), None),
        (read_call(S1, 1, 10, 1000), None),
        (read_call(S1, 0, 10, 1000, descending=True), None),
        (delete_call(S1, after.head, FEED_KEEP, "token"), b"ok"),
        (delete_call(S1, after.head, FEED_KEEP, "token"), b"ok"),
    ]
    for run, word in runs:
        reply = await run_with_declared_keys_alone(node, cluster_url, run)
        assert word is None or reply[0] == word, (run.script.name, reply)


async def test_the_probe_would_find_an_undeclared_key(node: Server, cluster_url: str) -> None:
    call = load_call(S1, ["c1"])
    moved = call._replace(keys=[S1.head, S1.head, *call.keys[2:]])
    await node.ok(await first(node))
    text = replace(call.script, text="return redis.call('HGET', KEYS[1]:gsub('head', 'calls'), 'c1')")
    with pytest.raises(ResponseError, match=r"(?i)perm|can't access"):
        await run_with_declared_keys_alone(node, cluster_url, moved._replace(script=text))
