"""Whatever a peer sends, and in whatever pieces: the same messages are taken, and what is counted is what is held."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.http.body_budget import BodyBudget
from api.websocket.frames import FrameReader
from proofs.line import frame

MOST = 2_000
texts = st.text(max_size=40).map(str.encode)
masks = st.sampled_from([bytes(4), b"\x81\x81\x80\x83", b"\x01\x80\x88\x82"])
frames = st.builds(
    frame,
    st.one_of(texts, st.binary(max_size=150), st.integers(0, 1_500).map(lambda n: b"x" * n)),
    st.sampled_from([0, 0, 1, 1, 1, 2, 8, 9, 10, 3]),
    last=st.sampled_from([True, True, False]),
    mask=masks,
)
streams = st.lists(st.one_of(frames, texts.map(frame), texts.map(frame), st.binary(max_size=20)), max_size=12).map(
    b"".join
)


def taken(pieces: list[bytes]) -> tuple[list[bytes], Any]:
    """The messages of what arrived so, and why no more would be taken."""
    budget, scope = BodyBudget(10_000_000), dict[str, Any]()
    inbox, messages = FrameReader(MOST, budget, scope), list[bytes]()
    for piece in pieces:
        inbox.add(piece)
        while not inbox.idle:
            inbox.look(0.0)
            messages += inbox.messages
            inbox.messages.clear()
            assert budget.held == inbox.partial + sum(map(len, messages))
    assert inbox.partial <= MOST + 20
    while not inbox.empty:
        inbox.discard()
    return messages, inbox.end


@given(streams, st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_pieces_make_no_difference(stream: bytes, sizes: list[int]) -> None:
    pieces, at = list[bytes](), 0
    for size in sizes * (len(stream) // sum(sizes) + 1):
        pieces.append(stream[at : at + size])
        at += size
    whole, again = taken([stream]), taken(pieces)
    assert again == whole
    assert all(len(message) <= MOST for message in whole[0])
