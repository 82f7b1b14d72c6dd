"""A commit that is refused says why, in a fixed order, and changes nothing; one sent again is not refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eventstore.commit.records import Commit, Head, decode_head
from tests.scripts.given import DAY, HOUR, S1, Server, first, following
from tests.unit.domain.given import ask, given

pytestmark = pytest.mark.anyio


async def begun(server: Server, **more: object) -> Head:
    return await server.ok(await first(server, **more))


def ahead(commit: Commit) -> Commit:
    """The same commit, from a clock that is a day ahead."""
    return replace(commit, time=commit.time + DAY)


def overdue(commit: Commit) -> Commit:
    """The same commit, although something fell due before it."""
    return replace(commit, before=1)


async def test_the_same_commit_sent_again_is_ok_and_changes_nothing_more(server: Server) -> None:
    commit = await first(server, records={"k": "{}"}, waiting={"c1": await server.now() + HOUR})
    await server.ok(commit)
    before = await server.dump()
    assert (await server.put(overdue(commit)))[0] == b"ok"
    assert await server.dump() == before


async def test_a_commit_sent_again_after_another_one_is_stale_and_shows_that_it_took_place(server: Server) -> None:
    commit = await first(server, process="mine")
    head = await server.ok(commit)
    await server.ok(following(head, "theirs", at=head.session.time, process="other"))
    word, _, stored = await server.refused(commit)
    assert word == b"stale"
    assert decode_head("s1", stored).writers["mine"] == commit.revision


async def test_a_head_that_has_moved_on_is_stale(server: Server) -> None:
    head = await begun(server)
    newer = await server.ok(following(head, "two", at=head.session.time))
    word, _, stored = await server.refused(following(head, "mine", at=head.session.time, revision="mine"))
    assert word == b"stale"
    assert decode_head("s1", stored) == newer


async def test_a_session_that_should_not_exist_is_stale(server: Server) -> None:
    head = await begun(server)
    word, _, stored = await server.refused(await first(server, "again", revision="again"))
    assert (word, decode_head("s1", stored)) == (b"stale", head)


async def test_a_session_that_should_exist_is_stale(server: Server) -> None:
    gone = following(Head("r1"), "two", at=await server.now(), revision="r2")
    word, _, stored = await server.refused(gone)
    assert (word, decode_head("s1", stored)) == (b"stale", Head())


async def test_a_retry_hears_the_first_record(server: Server) -> None:
    head = await begun(server, records={"a": "first", "b": "second"})
    again = following(head, "two", at=head.session.time, records={"new": "x", "b": "other", "a": "other"})
    word, _, stored, field, record = await server.refused(again)
    assert (word, field, record) == (b"replay", b"b", b"second")
    assert decode_head("s1", stored) == head


async def test_a_time_ahead_of_the_engine_is_early(server: Server) -> None:
    head = await begun(server)
    now = await server.now()
    word, told = await server.refused(ahead(following(head, "two", at=now)))
    assert word == b"early"
    assert now <= int(told) <= await server.now()


async def test_what_falls_due_first_makes_it_late(server: Server) -> None:
    head = await begun(server)
    now = await server.now()
    word, told = await server.refused(following(head, "two", at=now, before=now))
    assert word == b"late"
    assert now <= int(told) <= await server.now()


async def test_at_the_deadline_is_late_and_a_moment_before_it_is_not(server: Server) -> None:
    """The session's own time stands in for the clock, which does not stand still."""
    head = await begun(server)
    still = await server.now() + HOUR
    await server.client.hset(S1.head, "time", still)
    assert (await server.refused(following(head, "two", at=still, before=still)))[0] == b"late"
    await server.ok(following(head, "two", at=still, before=still + 1))


@pytest.mark.parametrize("log", ["deleted", "of another kind"])
async def test_a_lost_log_is_told_and_not_begun_anew(server: Server, log: str) -> None:
    head = await begun(server)
    kept = await server.client.dump(S1.events) if server.real else None
    await server.client.delete(S1.events)
    if log != "deleted":
        await server.client.set(S1.events, "x")
    word, _, entry = await server.refused(following(head, "two", at=head.session.time))
    assert (word, entry) == (b"lost", b"2-0")
    await mended(server, kept)


async def test_a_lost_head_is_told_and_its_log_kept(server: Server) -> None:
    await begun(server)
    await server.client.delete(S1.head)
    word, _, entry = await server.refused(await first(server, "again", revision="again"))
    assert (word, entry) == (b"lost", b"1-0")
    await mended(server, None)


async def test_a_log_that_is_ahead_of_its_head_is_told(server: Server) -> None:
    head = await begun(server)
    await server.client.xadd(S1.events, {"e": "x", "h": "y"}, id="3-0")
    word, _, entry = await server.refused(following(head, "two", "three", at=head.session.time))
    assert (word, entry) == (b"lost", b"2-0")
    await mended(server, None)


async def test_a_call_record_that_somebody_has_changed_is_not_replaced(server: Server) -> None:
    needs_sha1hex(server)
    call = given(ask("c1")).call("c1")
    one = await first(server, calls={"c1": call})
    head = await server.ok(one)
    await server.client.hset(S1.calls, "c1", "changed")
    commit = following(head, "two", at=head.session.time, calls={"c1": call}, replaces=one.sums)
    assert (await server.refused(commit))[0] == b"changed"


async def test_a_call_that_should_be_new_is_not_replaced(server: Server) -> None:
    needs_sha1hex(server)
    call = given(ask("c1")).call("c1")
    head = await server.ok(await first(server, calls={"c1": call}))
    assert (await server.refused(following(head, "two", at=head.session.time, calls={"c1": call})))[0] == b"changed"


def needs_sha1hex(server: Server) -> None:
    if not server.real:
        pytest.skip("fakeredis has no redis.sha1hex; a commit there can only add calls")


async def mended(server: Server, log: bytes | None) -> None:
    """Leave nothing broken for the search for leaks: bring the log back, or clear the server."""
    if log is None:
        await server.client.flushall()
    else:
        await server.client.restore(S1.events, 0, log, replace=True)


REFUSALS = ["replay", "stale", "early", "late"]


@pytest.mark.parametrize("reason", REFUSALS)
async def test_reasons_come_in_a_fixed_order(server: Server, reason: str) -> None:
    """A commit that could be refused for this reason and every later one hears this one."""
    base = await begun(server, records={"k": "first"})
    head = await server.ok(following(base, "two", at=base.session.time))
    later = REFUSALS[REFUSALS.index(reason) :]
    commit = following(
        base if "stale" in later else head,
        "mine",
        at=await server.now(),
        revision="mine",
        records={"k": "mine"} if "replay" in later else {},
    )
    if "early" in later:
        commit = ahead(commit)
    assert (await server.refused(overdue(commit)))[0].decode() == reason


async def test_a_retry_sent_to_a_session_that_has_ended_hears_the_first_record(server: Server) -> None:
    head = await begun(server, records={"k": "first"})
    ended = following(head, "over", at=head.session.time)
    ended.session.status = "completed"
    await server.ok(ended)
    assert (await server.refused(following(head, "x", at=1, revision="x", records={"k": "x"})))[0] == b"replay"
