"""The other scripts: what they tell, and what a deletion leaves."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.commit.records import Head, decode_head, decode_loaded, decode_page, delete_call
from tests.scripts.given import FEED_KEEP, HOUR, S1, Server, first, following

pytestmark = pytest.mark.anyio


async def numbered(server: Server, count: int) -> Head:
    """A session with so many lines, each its own number."""
    return await server.ok(await first(server, *(str(n) for n in range(1, count + 1))))


def lines(reply: list[Any]) -> list[int]:
    return [int(line) for line in reply[8:]]


async def test_loading_tells_of_everything_that_was_asked_for_in_order(server: Server) -> None:
    head = await server.ok(await first(server, records={"a": "1", "b": "2"}))
    await server.client.hset(S1.calls, "c1", "record")
    reply = await server.load("none", "c1", retries=("b", "no", "a"))
    assert reply[2:] == [b"2", None, b"1", None, b"record"]
    assert decode_head("s1", reply[1]) == head


async def test_loading_a_session_that_is_not_there_is_no_error(server: Server) -> None:
    loaded = decode_loaded("s1", await server.load("c1", retries=("k",)), ["c1"], ["k"])
    assert (loaded.head, loaded.calls, loaded.records) == (Head(), {"c1": None}, {})


async def test_loading_and_reading_change_nothing(server: Server) -> None:
    await numbered(server, 3)
    before = await server.dump()
    await server.load("c1", retries=("k",))
    await server.read(1)
    assert await server.dump() == before


@pytest.mark.parametrize(
    ("start", "first_seq", "expected"),
    [
        (1, 1, [1, 2, 3, 4, 5]),
        (4, 4, [4, 5]),
        (-2, 4, [4, 5]),
        (-99, 1, [1, 2, 3, 4, 5]),
        (0, 6, []),
        (6, 6, []),
        (99, 99, []),
    ],
)
async def test_reading_forwards(server: Server, start: int, first_seq: int, expected: list[int]) -> None:
    await numbered(server, 5)
    page = decode_page(await server.read(start))
    assert (page.first, [int(line) for line in page.lines], page.last_seq) == (first_seq, expected, 5)


@pytest.mark.parametrize(
    ("start", "first_seq", "expected"),
    [(0, 5, [5, 4, 3, 2, 1]), (3, 3, [3, 2, 1]), (99, 5, [5, 4, 3, 2, 1]), (-2, 4, [4, 3, 2, 1]), (1, 1, [1])],
)
async def test_reading_backwards(server: Server, start: int, first_seq: int, expected: list[int]) -> None:
    await numbered(server, 5)
    page = decode_page(await server.read(start, desc=True))
    assert (page.first, [int(line) for line in page.lines]) == (first_seq, expected)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("desc", [False, True])
async def test_pages_of_any_size_are_whole(server: Server, count: int, desc: bool) -> None:
    await numbered(server, 200)
    expected = list(range(200, 200 - count, -1)) if desc else list(range(1, count + 1))
    assert lines(await server.read(200 if desc else 1, count, desc=desc)) == expected


@pytest.mark.parametrize(("room", "expected"), [(0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (10_000, 5)])
async def test_a_page_ends_by_bytes_but_holds_at_least_one_line(server: Server, room: int, expected: int) -> None:
    await server.ok(await first(server, *["x" * 100] * 5))
    assert len((await server.read(1, 1000, room))[8:]) == expected


async def test_a_long_line_comes_alone_and_lets_the_next_one_follow(server: Server) -> None:
    await server.ok(await first(server, "a", "b" * 300_000, "c"))
    assert [len(line) for line in (await server.read(1, 10, 1000))[8:]] == [1]
    assert [len(line) for line in (await server.read(2, 10, 1000))[8:]] == [300_000]
    assert [len(line) for line in (await server.read(3, 10, 1000))[8:]] == [1]


async def test_reading_tells_the_state_of_the_session(server: Server) -> None:
    due = await server.now() + HOUR
    commit = await first(server, waiting={"c1": due})
    await server.ok(commit)
    page = decode_page(await server.read(1))
    assert (page.revision, page.status, page.due) == (commit.revision, "running", due)
    assert 0 <= await server.now() - page.now < HOUR
    assert page.exists
    assert not page.ended


async def test_reading_a_session_that_is_not_there_is_no_error(server: Server) -> None:
    page = decode_page(await server.read(1))
    assert (page.exists, page.last_seq, page.lines) == (False, 0, [])


async def test_reading_stops_at_a_hole_in_the_log(server: Server) -> None:
    """No line is ever shown under another's number."""
    await numbered(server, 6)
    await server.client.xdel(S1.events, "3-0")
    assert lines(await server.read(1)) == [1, 2]
    assert lines(await server.read(3)) == []
    assert lines(await server.read(4)) == [4, 5, 6]
    assert lines(await server.read(6, desc=True)) == [6, 5, 4]


async def test_deleting_leaves_the_tombstone_and_the_feed(server: Server) -> None:
    now = await server.now()
    commit = await first(server, records={"k": "{}"}, waiting={"c1": now + HOUR, "c2": now + HOUR})
    commit.session.created_at = now
    head = await server.ok(commit)
    await server.client.hset(S1.calls, "c1", "record")
    assert (await server.connection.run(delete_call(S1, head, FEED_KEEP, "token")))[0] == b"ok"
    left = {key.decode() async for key in server.client.scan_iter()}
    assert left == {S1.head, S1.partition.feed}
    _, stored = await server.load()
    assert decode_head("s1", stored) == Head("deleted", created_at=now)
    assert (await server.client.xrevrange(S1.partition.feed, count=1))[0][1] == {
        b"t": b"default",
        b"s": b"s1",
        b"d": b"1",
    }


async def test_deleting_is_announced(valkey: Server) -> None:
    head = await numbered(valkey, 1)
    pubsub = valkey.client.pubsub()
    await pubsub.ssubscribe(S1.partition.wake)
    assert (await pubsub.get_message(timeout=5))["type"] == "ssubscribe"
    await valkey.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    assert (await pubsub.get_message(timeout=5))["data"] == b"default/s1 deleted "
    await pubsub.aclose()


async def test_the_same_deletion_sent_again_is_ok_and_changes_nothing_more(server: Server) -> None:
    deletion = delete_call(S1, await numbered(server, 1), FEED_KEEP, "token")
    await server.connection.run(deletion)
    before = await server.dump()
    assert (await server.connection.run(deletion))[0] == b"ok"
    assert await server.dump() == before


async def test_another_deletion_is_stale(server: Server) -> None:
    head = await numbered(server, 1)
    await server.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    word, _, stored = await server.connection.run(delete_call(S1, head, FEED_KEEP, "other"))
    assert (word, decode_head("s1", stored).deleted) == (b"stale", True)


async def test_deleting_a_head_that_has_moved_on_is_stale_and_changes_nothing(server: Server) -> None:
    head = await numbered(server, 1)
    newer = await server.ok(following(head, "2", at=head.session.time))
    before = await server.dump()
    word, _, stored = await server.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    assert (word, decode_head("s1", stored)) == (b"stale", newer)
    assert await server.dump() == before


async def test_a_deleted_session_takes_no_commit_and_is_not_begun_again(server: Server) -> None:
    head = await numbered(server, 1)
    await server.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    now = await server.now()
    assert (await server.refused(following(head, "2", at=now)))[0] == b"stale"
    assert (await server.refused(following(Head(), "1", at=now)))[0] == b"stale"
