"""The cursor of the feed: what went in comes out, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.feed_cursor import NONE, GarbledCursor, History, Inside, Position, parse

MS = st.integers(1, 2**63)
IDS = st.one_of(st.just(NONE), st.tuples(MS, st.integers(0, 2**40)))
SESSIONS = st.text("abcXYZ019_.:-", min_size=1, max_size=128).filter(lambda name: name not in (".", ".."))
SEQS = st.integers(1, 2**53)


@st.composite
def positions(draw: st.DrawFn) -> Position:
    ids = draw(st.lists(IDS, min_size=1, max_size=80))
    known = [number for number, entry in enumerate(ids) if entry != NONE]
    inside = history = None
    if known and draw(st.booleans()):
        inside = Inside(draw(st.sampled_from(known)), draw(SEQS))
    if known and draw(st.booleans()):
        history = History(draw(st.sampled_from(known)), draw(SESSIONS), draw(st.one_of(st.just(0), SEQS)))
    return Position("acme", ids, inside, history)


def parts(position: Position) -> object:
    return position.ids, position.inside, position.history


@given(positions())
def test_a_position_survives_its_token(position: Position):
    text = position.text()
    assert text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    found = parse(text, "acme", len(position.ids))
    assert parts(found) == parts(position) and found.text() == text


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 2**22), st.integers(0, 2)), min_size=1))
def test_the_same_position_has_the_same_token(steps: list[tuple[int, int, int]]):
    position = Position.start("acme", 8)
    for partition, later, number in steps:
        position.move(partition, (position.ids[partition][0] + later, number))
        assert position.text() == Position("acme", position.ids).text()


@given(st.lists(st.tuples(st.integers(0, 7), MS, st.integers(0, 9), st.booleans())))
def test_moving_is_the_same_as_having_been_there_always(moves: list[tuple[int, int, int, bool]]):
    position = Position.start("acme", 8)
    for partition, ms, number, partly in moves:
        position.move(partition, (ms, number), 3 if partly else None)
        assert parts(parse(position.text(), "acme", 8)) == parts(position)
        assert position.inside == (Inside(partition, 3) if partly else None)


@given(positions(), st.data())
def test_a_token_with_one_character_changed_is_refused(position: Position, data: st.DataObject):
    text = position.text()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("Ab0_-").filter(lambda character: character != text[at]))
    with pytest.raises(GarbledCursor):
        parse(text[:at] + other + text[at + 1 :], "acme", len(position.ids))


@given(st.one_of(st.text(max_size=50), st.text("ABab01_-", max_size=200), st.binary(max_size=90).map(bytes.hex)))
def test_any_other_text_is_refused(text: str):
    with pytest.raises(GarbledCursor):
        parse(text, "acme", 64)


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t + "=", lambda t: " " + t])
def test_cut_or_lengthened_it_is_refused(change):
    text = Position("acme", [(1_795_980_210_285, 1)] * 64).text()
    with pytest.raises(GarbledCursor):
        parse(change(text), "acme", 64)


def test_it_holds_for_one_tenant_and_one_number_of_partitions():
    text = Position("acme", [(1_795_980_210_285, 1)] * 64).text()
    for tenant, partitions in (("bolt", 64), ("acme", 32), ("acme", 65)):
        with pytest.raises(GarbledCursor):
            parse(text, tenant, partitions)


def test_it_is_short():
    now = 1_795_980_210_285
    assert len(Position.start("acme", 64).text()) < 40
    assert len(Position("acme", [(now + 900 * number, number % 2) for number in range(64)]).text()) < 400
