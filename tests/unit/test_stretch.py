"""Stretches of a log: how much is asked for, and what of an answer is taken."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.log.range_reader import LEAST_LINES, RANGE_BYTES, RANGE_LINES, decode_range, fitting


def answer(first: int, *lines: bytes) -> list[Any]:
    """What a range gives: entries from this number on, the hash of each named after it."""
    return [[b"%d-0" % n, [b"e", line, b"h", b"hash %d" % n]] for n, line in enumerate(lines, first)]


@pytest.mark.parametrize(
    ("longest", "left", "count"),
    [
        (100, 10_000, RANGE_LINES),
        (100, 20, 20),
        (100, LEAST_LINES - 1, 0),
        (1024, 10_000, RANGE_BYTES // 1024),
        (RANGE_BYTES // LEAST_LINES, 10_000, LEAST_LINES),
        (RANGE_BYTES // LEAST_LINES + 1, 10_000, 0),
        (2 * RANGE_BYTES, 10_000, 0),
        (0, 10_000, RANGE_LINES),
    ],
)
def test_so_many_are_asked_for_as_fit_if_they_are_like_those_before(longest: int, left: int, count: int) -> None:
    assert fitting([b"x", b"x" * longest] if longest else [b""], left) == count


def test_where_nothing_tells_how_long_lines_are_there_is_no_stretch() -> None:
    assert fitting([], 10_000) == 0


def test_the_lines_are_those_after_the_event_that_the_reader_has_seen() -> None:
    stretch = decode_range(answer(6, b"seen", b"one", b"two"), 7, "hash 6", 2)
    assert stretch
    assert (stretch.lines, stretch.hash) == ([b"one", b"two"], "hash 8")


@pytest.mark.parametrize(
    "entries",
    [
        [],
        answer(6, b"seen", b"one"),
        answer(5, b"seen", b"one", b"two"),
        [*answer(6, b"seen", b"one"), *answer(9, b"two")],
        [*answer(6, b"seen", b"one"), [b"7-1", [b"e", b"two", b"h", b""]]],
        [[b"6-0", [b"e", b"seen"]], *answer(7, b"one", b"two")],
    ],
    ids=["nothing", "too few", "others", "a hole", "between", "no hash"],
)
def test_anything_else_is_left_to_the_script(entries: list[Any]) -> None:
    assert decode_range(entries, 7, "hash 6", 2) is None


def test_another_past_is_left_to_the_script() -> None:
    assert decode_range(answer(6, b"seen", b"one", b"two"), 7, "hash of another", 2) is None


def test_lines_that_turn_out_longer_are_kept_as_far_as_there_is_room_but_always_one() -> None:
    half, whole = b"x" * (RANGE_BYTES // 2), b"x" * (2 * RANGE_BYTES)
    some = decode_range(answer(1, b"seen", half, half, b"y"), 2, "hash 1", 3)
    one = decode_range(answer(1, b"seen", whole, b"y"), 2, "hash 1", 2)
    assert some
    assert one
    assert ([len(line) for line in some.lines], some.hash) == ([len(half)] * 2, "hash 3")
    assert ([len(line) for line in one.lines], one.hash) == ([len(whole)], "hash 2")
