"""Names that Layby makes up: a prefix and 26 characters of Crockford's base 32 (130 bits, more than a UUID holds)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
IdSource = Callable[[str], str]
"""Gives a new name for a prefix. Rules take one as an argument, so that tests can foresee what it gives."""


def _encode(number: int, bits: int = 130) -> str:
    """Ten bits, two characters, at a time."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(bits - 10, -1, -10)])


def random_id(prefix: str) -> str:
    """A name nobody can guess."""
    return prefix + _encode(secrets.randbits(130))


def random_text(bits: int) -> str:
    """Characters that nobody can guess, five bits each; `bits` in tens."""
    return _encode(secrets.randbits(bits), bits)


def derived_id(prefix: str, *sources: str) -> str:
    """The same name for the same sources, for ever: how a retried creation finds what the first one made."""
    text = "\0".join(sources)
    return prefix + _encode(int.from_bytes(sha256(text.encode()).digest()[:17]) >> 6)
