"""A commit that goes through: every effect of it, at once."""

from __future__ import annotations

import pytest

from eventstore.commit.records import Head, decode_head
from eventstore.domain.values import json_text
from tests.scripts.given import DAY, HOUR, KEYS, MINUTE, S1, Server, first, following
from tests.unit.domain.given import ask, given

pytestmark = pytest.mark.anyio


async def test_the_events_are_the_exact_lines_with_their_hashes_at_their_sequence_numbers(server: Server) -> None:
    commit = await first(server, "one", 'ünf "2"')
    await server.ok(commit)
    one, two = commit.lines
    assert await server.client.xrange(S1.events) == [
        (b"1-0", {b"e": b"one", b"h": one.hash.encode()}),
        (b"2-0", {b"e": 'ünf "2"'.encode(), b"h": two.hash.encode()}),
    ]


async def test_the_head_is_what_the_next_reader_decides_by(server: Server) -> None:
    commit = await first(server, waiting={"c1": await server.now() + HOUR})
    await server.ok(commit)
    _, stored = await server.load()
    assert decode_head("s1", stored) == commit.head
    assert stored[:4] == [commit.revision.encode(), b"1", str(commit.time).encode(), b"running"]


async def test_the_records_of_calls_are_stored_as_they_are(server: Server) -> None:
    call = given(ask("c:1", tool_args={"list": [], "big": 2**60})).call("c:1")
    await server.ok(await first(server, calls={"c:1": call}))
    _, _, record = await server.load("c:1")
    assert json_text.read(record)["state_snapshot"]["pending_tool_call"]["tool_args"] == {"list": [], "big": 2**60}


async def test_a_call_that_waits_has_a_marker_until_its_deadline(server: Server) -> None:
    due = await server.now() + HOUR
    await server.ok(await first(server, waiting={"c1": due, "c:2": due + 1}))
    assert await server.client.pexpiretime(S1.due("c1")) == due
    assert await server.client.pexpiretime(S1.due("c:2")) == due + 1


async def test_a_call_that_waits_no_more_has_no_marker(server: Server) -> None:
    now = await server.now()
    head = await server.ok(await first(server, waiting={"c1": now + HOUR, "c2": now + HOUR}))
    await server.ok(following(head, "two", waiting={"c2": now + HOUR}))
    assert await server.client.exists(S1.due("c1")) == 0
    assert await server.client.exists(S1.due("c2")) == 1


async def test_the_nearest_deadline_stands_in_the_index_of_the_partition(server: Server) -> None:
    now = await server.now()
    await server.ok(await first(server, waiting={"c1": now + HOUR, "c2": now + MINUTE}))
    found = await server.client.zrange(S1.partition.deadlines, 0, -1, withscores=True)
    assert found == [(b"default/s1", float(now + MINUTE))]


async def test_a_session_with_nothing_due_leaves_the_index(server: Server) -> None:
    now = await server.now()
    head = await server.ok(await first(server, waiting={"c1": now + HOUR}))
    await server.ok(following(head, "two", waiting={}))
    assert await server.client.zcard(S1.partition.deadlines) == 0


async def test_the_feed_has_one_entry_a_commit(server: Server) -> None:
    head = await server.ok(await first(server, "one", "two"))
    await server.ok(following(head, "three", at=head.session.time))
    entries = [fields for _, fields in await server.client.xrange(S1.partition.feed)]
    known = {b"t": b"default", b"s": b"s1", b"y": b"note.taken"}
    assert entries == [{**known, b"f": b"1", b"l": b"2"}, {**known, b"f": b"3", b"l": b"3"}]


async def test_the_feed_is_kept_short(valkey: Server) -> None:
    head = Head()
    for n in range(400):
        commit = following(head, "x", at=await valkey.now(), revision=f"r{n}")
        reply = await valkey.connection.run(commit.script_call(100))
        assert reply[0] == b"ok"
        head = commit.head
    assert 100 <= await valkey.client.xlen(S1.partition.feed) < 300


async def test_a_session_enters_the_index_of_sessions_with_its_first_event(server: Server) -> None:
    await server.ok(await first(server))
    assert await server.client.zrange(S1.partition.sessions, 0, -1, withscores=True) == [(b"default/s1", 0.0)]


async def test_a_commit_announces_itself_with_its_newest_event_and_its_nearest_deadline(valkey: Server) -> None:
    due = await valkey.now() + HOUR
    pubsub = valkey.client.pubsub()
    await pubsub.ssubscribe(S1.partition.wake)
    assert (await pubsub.get_message(timeout=5))["type"] == "ssubscribe"
    await valkey.ok(await first(valkey, "one", "two", waiting={"c1": due}))
    message = await pubsub.get_message(timeout=5)
    assert message["data"] == f"default/s1 2 {due}".encode()
    await pubsub.aclose()


async def test_a_commit_without_events_changes_the_head_and_no_log(server: Server) -> None:
    now = await server.now()
    head = await server.ok(await first(server))
    await server.ok(following(head, at=now, revision="renewed", records={"k": "{}"}))
    assert (await server.load())[1][:2] == [b"renewed", b"1"]
    assert await server.client.xlen(S1.events) == 1
    assert await server.client.xlen(S1.partition.feed) == 1


async def test_times_never_fall_below_the_newest_event(server: Server) -> None:
    """The engine's clock was set back an hour: the session goes on at the time it had reached."""
    ahead = await server.now()
    head = await server.ok(await first(server, at=ahead))
    await server.client.hset(S1.head, "time", ahead + HOUR)
    await server.ok(following(head, "two", at=ahead + HOUR))
    assert (await server.load())[1][2] == str(ahead + HOUR).encode()


async def test_the_reply_tells_the_time_of_the_engine_and_not_of_the_session(server: Server) -> None:
    ahead = await server.now()
    head = await server.ok(await first(server, at=ahead))
    await server.client.hset(S1.head, "time", ahead + HOUR)
    reply = await server.put(following(head, "two", at=ahead + HOUR))
    assert ahead <= int(reply[1]) < ahead + MINUTE
    assert ahead <= int((await server.load())[0]) < ahead + MINUTE


async def test_a_retry_record_is_kept_for_a_day(server: Server) -> None:
    commit = await first(server, records={"k": '{"a":[]}'})
    before = await server.now()
    await server.ok(commit)
    kept_until = await server.client.zscore(S1.dedup_age, "k")
    assert before + DAY <= kept_until <= await server.now() + DAY
    assert await server.client.pexpiretime(S1.dedup) == kept_until
    assert await server.client.pexpiretime(S1.dedup_age) == kept_until
    assert (await server.load(retries=("k", "none")))[2:] == [b'{"a":[]}', None]


async def test_a_commit_forgets_as_many_old_retry_records_as_it_adds_and_a_few_more(server: Server) -> None:
    now = await server.now()
    head = await server.ok(await first(server, records={f"old{n}": "{}" for n in range(30)}))
    for n in range(30):
        await server.client.zadd(S1.dedup_age, {f"old{n}": now - 1000 + n})
    head = await server.ok(following(head, "two", at=now, records={"new": "{}"}))
    assert await server.client.zcard(S1.dedup_age) == 31 - 10
    assert await server.client.hlen(S1.dedup) == 31 - 10
    assert await server.client.hexists(S1.dedup, "new")
    await server.ok(following(head, "three", at=now, records={f"more{n}": "{}" for n in range(7)}))
    assert await server.client.hlen(S1.dedup) == 21 + 7 - 20


async def test_an_outdated_retry_record_answers_nobody(server: Server) -> None:
    now = await server.now()
    head = await server.ok(await first(server, records={"k": "old"}))
    await server.client.zadd(S1.dedup_age, {"k": now - 1})
    assert (await server.load(retries=("k",)))[2:] == [None]
    await server.ok(following(head, "two", at=now, records={"k": "new"}))
    assert (await server.load(retries=("k",)))[2:] == [b"new"]


async def test_a_thousand_events_are_one_commit(server: Server) -> None:
    commit = await first(server, *(f"line {n}" for n in range(1000)))
    await server.ok(commit)
    assert await server.client.xlen(S1.events) == 1000
    assert (await server.client.xrevrange(S1.events, count=1))[0] == (
        b"1000-0",
        {b"e": b"line 999", b"h": commit.session.chain.encode()},
    )


async def test_four_mebibytes_are_one_commit(server: Server) -> None:
    lines = [bytes([n]) * (256 * 1024) for n in range(16)]
    await server.ok(following(Head(), *lines, at=await server.now()))
    assert (await server.read(16))[8:] == [lines[15]]


async def test_a_thousand_calls_can_begin_and_end_in_one_commit_each(server: Server) -> None:
    now = await server.now()
    waiting = {f"c{n}": now + HOUR + n for n in range(1000)}
    head = await server.ok(await first(server, waiting=waiting))
    await server.ok(following(head, "two", at=now, waiting={}))
    assert await server.client.dbsize() == 4  # head, events, feed, sessions


async def test_tenants_with_the_same_session_id_do_not_meet(server: Server) -> None:
    now = await server.now()
    other = KEYS.session("acme:eu/1", "s1")
    await server.ok(await first(server, "ours"))
    await server.ok(following(Head(), "theirs", at=now, keys=other))
    assert (await server.client.xrange(S1.events))[0][1][b"e"] == b"ours"
    assert (await server.client.xrange(other.events))[0][1][b"e"] == b"theirs"
