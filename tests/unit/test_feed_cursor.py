"""The cursor of the feed: what went in comes out, and nothing else passes for one."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.feed.cursor import NONE, Backfill, GarbledCursor, PartialEntry, Position, parse
from eventstore.feed.cursor_seal import Seal

MS = st.integers(1, 2**63)
IDS = st.one_of(st.just(NONE), st.tuples(MS, st.integers(0, 2**40)))
SESSIONS = st.text("abcXYZ019_.:-", min_size=1, max_size=128).filter(lambda name: name not in (".", ".."))
SEQS = st.integers(1, 2**53)
SECRET = b"a secret of thirty-two bytes....."[:32]
ACME = Seal(SECRET, "acme")
NOW = 1_795_980_210_285
ALPHABET = string.ascii_letters + string.digits + "-_"


@st.composite
def positions(draw: st.DrawFn) -> Position:
    ids = draw(st.lists(IDS, min_size=1, max_size=80))
    known = [number for number, entry in enumerate(ids) if entry != NONE]
    inside = history = None
    if known and draw(st.booleans()):
        inside = PartialEntry(draw(st.sampled_from(known)), draw(SEQS))
    if known and draw(st.booleans()):
        history = Backfill(draw(st.sampled_from(known)), draw(SESSIONS), draw(st.one_of(st.just(0), SEQS)))
    return Position(ACME, ids, inside, history)


def parts(position: Position) -> object:
    return position.ids, position.inside, position.history


@given(positions())
def test_a_position_survives_its_token(position: Position):
    text = position.text()
    assert text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    found = parse(text, ACME, len(position.ids))
    assert parts(found) == parts(position)


def test_two_tokens_of_one_position_are_unlike():
    """Else a reader could tell whether the position moved by the commits of others."""
    position = Position(ACME, [(NOW, 1)] * 64)
    one, other = position.text(), position.text()
    assert one != other and parts(parse(one, ACME, 64)) == parts(parse(other, ACME, 64))
    assert sum(map(str.__eq__, one, other)) < len(one) / 4


@given(
    st.lists(
        st.one_of(st.just(NONE), st.tuples(st.integers(NOW - 86_400_000 * 90, NOW), st.integers(0, 1))),
        min_size=64,
        max_size=64,
    )
)
def test_the_length_tells_nothing_of_the_others(ids: list[tuple[int, int]]):
    assert len(Position(ACME, ids).text()) == len(Position.start(ACME, 64).text())


@given(st.lists(st.tuples(st.integers(0, 7), MS, st.integers(0, 9), st.booleans())))
def test_moving_is_the_same_as_having_been_there_always(moves: list[tuple[int, int, int, bool]]):
    position = Position.start(ACME, 8)
    for partition, ms, number, partly in moves:
        position.move(partition, (ms, number), 3 if partly else None)
        assert parts(parse(position.text(), ACME, 8)) == parts(position)
        assert position.inside == (PartialEntry(partition, 3) if partly else None)


@given(positions(), st.integers(0), st.integers(1, len(ALPHABET) - 1))
def test_a_token_with_one_character_changed_is_refused(position: Position, place: int, shift: int):
    """The change is relative: two tokens of one position are unlike, and what is drawn must not depend on that."""
    text = position.text()
    at = place % len(text)
    other = ALPHABET[(ALPHABET.index(text[at]) + shift) % len(ALPHABET)]
    with pytest.raises(GarbledCursor):
        parse(text[:at] + other + text[at + 1 :], ACME, len(position.ids))


@pytest.mark.parametrize(("partitions", "odd"), [(3, 2), (64, 3)])
def test_no_other_last_character_passes(partitions: int, odd: int):
    """Of the last character some bits are not used, four or two, and a careless reader ignores them (RFC 4648, section
    3.5)."""
    text = Position(ACME, [(NOW, 1)] * partitions).text()
    assert len(text) % 4 == odd
    for other in ALPHABET.replace(text[-1], ""):
        with pytest.raises(GarbledCursor):
            parse(text[:-1] + other, ACME, partitions)


@given(st.one_of(st.text(max_size=50), st.text("ABab01_-", max_size=200), st.binary(max_size=90).map(bytes.hex)))
def test_any_other_text_is_refused(text: str):
    with pytest.raises(GarbledCursor):
        parse(text, ACME, 64)


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t + "=", lambda t: " " + t])
def test_cut_or_lengthened_it_is_refused(change):
    text = Position(ACME, [(NOW, 1)] * 64).text()
    with pytest.raises(GarbledCursor):
        parse(change(text), ACME, 64)


def test_it_holds_for_one_tenant_one_store_and_one_number_of_partitions():
    text = Position(ACME, [(NOW, 1)] * 64).text()
    parse(text, ACME, 64)
    for seal, partitions in ((Seal(SECRET, "bolt"), 64), (Seal(bytes(32), "acme"), 64), (ACME, 32), (ACME, 65)):
        with pytest.raises(GarbledCursor):
            parse(text, seal, partitions)


def test_it_is_short():
    assert len(Position.start(ACME, 64).text()) < 620


def test_moving_back_forgets_what_was_half_done_there_and_nothing_else():
    ids = [(5, 1), (6, 2), (7, 3)]
    for inside, history in ((PartialEntry(1, 3), Backfill(2, "s", 4)), (PartialEntry(2, 3), Backfill(1, "s", 4))):
        position = Position(ACME, ids, inside, history)
        position.move_back({1: (4, 0), 0: NONE})
        again = parse(position.text(), ACME, 3)
        kept = (None, history) if inside.partition == 1 else (inside, None)
        # a history that is told anew begins at the beginning
        assert parts(again) == ([NONE, NONE if history.partition == 1 else (4, 0), (7, 3)], *kept)
