"""What is remembered of a past, and where a reader goes on: the rules, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Line
from eventstore.domain.events import GENESIS, chain
from eventstore.feed.cursor import NONE
from eventstore.feed.divergence import (
    REMEMBERED,
    REMEMBERED_IN_ALL,
    Divergence,
    DivergenceMonitor,
    LostSession,
    decode_records,
    earlier,
)
from eventstore.log.followed_session import RECENT_LINES, FollowedSession
from eventstore.redis_keys import Keys, PartitionKeys, SessionKeys


def loss(common: tuple[int, int], noticed: int) -> Divergence:
    return Divergence(0, noticed, common, (common[0] + 1, 0))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([], (90, 1)),
        ([loss((80, 0), 150)], (80, 0)),
        ([loss((80, 0), 150), loss((70, 3), 160)], (70, 3)),
        ([loss((80, 0), 99)], (90, 1)),  # noticed before the reader's entry was written: an earlier loss
        ([loss((100, 9), 150)], (90, 1)),  # after the reader's entry
        ([loss(NONE, 150)], NONE),
    ],
)
def test_a_reader_goes_on_before_every_loss_that_may_have_been_its_own(
    known: list[Divergence], expected: tuple[int, int]
) -> None:
    assert earlier((90, 1), (100, 5), known) == expected


def test_what_is_recorded_is_read_as_it_was_meant() -> None:
    fields = {
        b"acknowledged": b"77",
        b"12 0-0": b"500 3-4",
        b"7 90-1": b"400 91-5",
        b"7 90-1 acme%20co/s:1": b"5 2",
        b"7 80-1 acme/s2": b"5 2",  # of a loss that had no room itself
    }
    expected = [
        Divergence(7, 400, (90, 1), (91, 5), [LostSession("acme co", "s:1", 5, 2)]),
        Divergence(12, 500, NONE, (3, 4)),
    ]
    assert decode_records(fields) == expected
    assert decode_records([part for pair in fields.items() for part in pair]) == expected


@pytest.mark.parametrize("partitions", [1, 64, 4_096])
def test_what_is_remembered_is_bounded_however_many_partitions_there_are(partitions: int) -> None:
    nobody: Any = None  # nothing is looked for
    watch = DivergenceMonitor(nobody, Keys(partitions), {}, CommitListener())
    newest = REMEMBERED * 3 if partitions <= 64 else 30
    for number in range(partitions):
        keys = SessionKeys(PartitionKeys(number), "acme", "s1")
        for seq in range(1, newest + 1):
            watch.feed_entry_written(keys, b"%d-0" % seq, seq, seq)
        entries = watch._entries[number]
        assert 1 < len(entries) <= REMEMBERED
        assert entries[-1].last == newest, "the newest is always there"
    assert sum(map(len, watch._entries.values())) <= REMEMBERED_IN_ALL


def lines(first: int, count: int, before: str = GENESIS, word: str = "a") -> list[Line]:
    made = list[Line]()
    for seq in range(first, first + count):
        text = f"{word}{seq}".encode()
        before = chain(before, text)
        made.append(Line(seq, "note.taken", text, before))
    return made


def seqs(found: list[Line]) -> list[int]:
    return [line.seq for line in found]


def test_lines_are_handed_to_those_who_have_read_what_is_before_them() -> None:
    topic, all_ = FollowedSession(), lines(1, 9)
    topic.remember(all_[3:6])
    topic.remember(all_[6:])
    assert seqs(topic.lines_from(4, all_[2].hash)) == [4, 5, 6, 7, 8, 9]
    assert seqs(topic.lines_from(4, all_[2].hash)) == [4, 5, 6, 7, 8, 9], "also when it is known by then"
    assert seqs(topic.lines_from(6, all_[4].hash)) == [6, 7, 8, 9]
    assert seqs(topic.lines_from(6, "")) == [6, 7, 8, 9], "who has read nothing takes what comes"
    assert topic.lines_from(3, all_[1].hash) == topic.lines_from(10, all_[8].hash) == []


@pytest.mark.parametrize("seq", [4, 6])
def test_lines_are_not_handed_to_those_who_have_read_another_past(seq: int) -> None:
    topic, other = FollowedSession(), lines(1, 9, word="b")
    topic.remember(lines(1, 9)[3:])
    assert topic.lines_from(seq, other[seq - 2].hash) == []


def test_a_line_that_follows_by_number_alone_begins_anew() -> None:
    topic, mine, other = FollowedSession(), lines(1, 5), lines(1, 9, word="b")
    topic.remember(mine)
    topic.remember(other[5:7])
    assert topic.version == 0
    assert topic.lines_from(3, mine[1].hash) == []
    assert topic.lines_from(6, mine[4].hash) == []
    assert seqs(topic.lines_from(6, other[4].hash)) == [6, 7]


def test_a_number_that_is_given_out_again_lets_all_readers_look() -> None:
    topic, mine, other = FollowedSession(), lines(1, 9), lines(1, 9, word="b")
    topic.remember(mine)
    topic.remember(other[4:5])
    assert topic.version == 1
    assert topic.lines_from(6, mine[4].hash) == []


def test_a_store_that_has_less_than_was_known_brings_all_into_doubt() -> None:
    topic = FollowedSession()
    topic.remember(lines(1, 9))
    topic.heard(9)
    topic.learned(4, 9, ended=False)
    assert (topic.last_seq, topic.version, list(topic.recent)) == (4, 1, [])


def test_what_precedes_the_oldest_line_that_is_kept_is_known() -> None:
    topic, many = FollowedSession(), lines(1, RECENT_LINES + 5)
    topic.remember(many)
    assert seqs(topic.lines_from(6, many[4].hash))[0] == 6
    assert topic.lines_from(6, "f" * 64) == []
