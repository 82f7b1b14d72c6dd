"""Entries of the feed: their ids, by which it is known that something was lost, and the record of that."""

from __future__ import annotations

import pytest

from eventstore.commit.records import Head, delete_call
from eventstore.feed.divergence import KEPT, RECORD
from eventstore.feed.entries import decode_scan, entry_id, scan_call
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import DIVERGED
from tests.scripts.given import FEED_KEEP, KEYS, S1, Server, first, following

pytestmark = pytest.mark.anyio
FEED = S1.partition.feed


async def newest(server: Server) -> tuple[int, int]:
    return entry_id((await server.client.xrevrange(FEED, count=1))[0][0])


async def commits(server: Server, count: int) -> list[bytes]:
    """So many commits of one session; the ids of their entries."""
    head, ids = Head(), list[bytes]()
    for n in range(count):
        now = await server.now()
        commit = following(head, f"line {n}", at=now) if n else await first(server, "line 0")
        reply = await server.put(commit)
        assert reply[0] == b"ok", reply
        ids.append(reply[2])
        head = commit.head
    return ids


async def kept(server: Server, *ids: bytes) -> list[bytes]:
    return await server.connection.run(ScriptCall(KEPT, [FEED], ids))


async def test_a_commit_tells_its_entry_whose_number_is_made_of_the_hash(server: Server) -> None:
    commit = await first(server, "one", "two")
    reply = await server.put(commit)
    assert entry_id(reply[2]) == await newest(server)
    assert entry_id(reply[2])[1] == int(commit.lines[-1].hash[:4], 16) % (1 << 14)
    assert (await server.put(commit))[2:] == [], "it is not known any more"


async def test_entries_rise_also_when_the_clock_stands_still_or_was_set_back(server: Server) -> None:
    head = await server.ok(await first(server, "one"))
    later = (await server.now()) + 3_600_000
    await server.client.xadd(FEED, {"t": "other"}, id=f"{later}-5")
    found = [await newest(server)]
    for n in range(20):
        head = await server.ok(following(head, f"line {n}", at=await server.now()))
        found.append(await newest(server))
    assert found == sorted(set(found))
    assert {ms for ms, _ in found} == {later}


async def test_a_feed_that_was_emptied_takes_entries_again(server: Server) -> None:
    head = await server.ok(await first(server, "one"))
    later = (await server.now()) + 3_600_000
    await server.client.xadd(FEED, {"t": "other"}, id=f"{later}-5")
    await server.client.xtrim(FEED, maxlen=0, approximate=False)
    await server.ok(following(head, "two", at=await server.now()))
    assert await server.client.xlen(FEED) == 1


async def test_a_deletion_tells_its_entry(server: Server) -> None:
    head = await server.ok(await first(server, "one"))
    call = delete_call(S1, head, FEED_KEEP, "token")
    reply = await server.connection.run(call)
    assert entry_id(reply[2]) == await newest(server)
    assert (await server.connection.run(call))[2:] == []


async def test_what_is_kept_gone_or_trimmed_is_told_apart(server: Server) -> None:
    a, b, c, d = await commits(server, 4)
    assert await kept(server, a, b, c, d) == [b"0-0", b"kept", b"kept", b"kept", b"kept"]
    await server.client.xdel(FEED, c)
    assert await kept(server, a, b, c, d) == [b, b"kept", b"kept", b"gone", b"kept"]
    await server.client.xtrim(FEED, maxlen=1, approximate=False)
    assert (await kept(server, a, d))[1:] == [b"trimmed", b"kept"]
    await server.client.delete(FEED)
    assert await kept(server, a, d) == [b"0-0", b"gone", b"gone"]
    await server.client.flushall()


async def test_a_reader_of_another_past_is_told_the_last_common_entry(server: Server) -> None:
    _, b, c = await commits(server, 3)
    await server.client.xdel(FEED, c)
    scan = decode_scan(await server.connection.run(scan_call(S1.partition, entry_id(c), "default", 10)))
    assert (scan.other, scan.last) == (True, entry_id(b))
    await server.client.delete(FEED)
    scan = decode_scan(await server.connection.run(scan_call(S1.partition, entry_id(c), "default", 10)))
    assert (scan.other, scan.last) == (True, (0, 0))
    await server.client.flushall()


async def test_a_loss_is_recorded_once_and_not_after_it_was_acknowledged(server: Server) -> None:
    def record(lost: str, *sessions: str | int) -> ScriptCall:
        return ScriptCall(RECORD, [DIVERGED], [KEYS.partition(3).number, "90-1", lost, 100, *sessions])

    assert await server.connection.run(record("91-5", "default/s1", 7, 4)) == 1
    before = await server.client.hgetall(DIVERGED)
    assert await server.connection.run(record("95-5", "default/s1", 9, 9)) == 0
    assert await server.client.hgetall(DIVERGED) == before
    assert before[b"3 90-1 default/s1"] == b"7 4"
    await server.client.delete(DIVERGED)
    await server.client.hset(DIVERGED, "acknowledged", 95)
    assert [await server.connection.run(record(lost)) for lost in ("91-5", "95-9", "96-0")] == [0, 0, 1]
    await server.client.flushall()
