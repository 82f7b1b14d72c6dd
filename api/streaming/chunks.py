"""What leaves at once: a stream of small parts, gathered into pieces worth sending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

PIECE_BYTES: Final = 64 * 1024
"""About what is sent at once: all that a client which does not read makes us hold, besides what it stands in."""


def gather(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts, as few pieces; none is empty."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
