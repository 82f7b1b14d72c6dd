"""Names that Layby makes up: a prefix and 26 characters of Crockford's base 32 (130 bits, more than a UUID holds)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_CHARACTERS = (_ALPHABET * 8).encode()
"""One for each byte: every one of them stands for eight, so that none is likelier than another."""
IdSource = Callable[[str], str]
"""Gives a new name for a prefix. Rules take one as an argument, so that tests can foresee what it gives."""


def random_id(prefix: str) -> str:
    """A name nobody can guess."""
    return prefix + random_text(130)


def random_text(bits: int) -> str:
    """Characters that nobody can guess, five bits each."""
    return secrets.token_bytes(bits // 5).translate(_CHARACTERS).decode()


def derived_id(prefix: str, *sources: str) -> str:
    """The same name for the same sources, for ever: how a retried creation finds what the first one made."""
    text = "\0".join(sources)
    return prefix + _encode(int.from_bytes(sha256(text.encode()).digest()[:17]) >> 6)


def _encode(number: int) -> str:
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)])
