"""Names that Layby makes up: a prefix and 26 characters of Crockford's base 32 (130 bits, more than a UUID holds)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from hashlib import sha256

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_CHARACTERS = (_ALPHABET * 8).encode()
"""One for each byte: every one of them stands for eight, so that none is likelier than another."""
_DRAWN = 4_096
"""Bytes that are drawn from the system at once: each time is a call to the kernel."""
IdSource = Callable[[str], str]
"""Gives a new name for a prefix. Rules take one as an argument, so that tests can foresee what it gives."""


def random_id(prefix: str) -> str:
    """A name nobody can guess."""
    return prefix + random_text(130)


def random_text(bits: int) -> str:
    """Characters that nobody can guess, five bits each."""
    return _drawn.take(bits // 5)


class _Drawn:
    """Characters in store, each of which is given out once: for one thread, and never to a process that was forked."""

    def __init__(self) -> None:
        self._text: str = ""
        self._at: int = 0

    def take(self, count: int) -> str:
        end = self._at + count
        if end > len(self._text):
            self._text = secrets.token_bytes(max(_DRAWN, count)).translate(_CHARACTERS).decode()
            end = count
        self._at = end
        return self._text[end - count : end]

    def forget(self) -> None:
        self._text, self._at = "", 0


_drawn = _Drawn()
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_drawn.forget)


def derived_id(prefix: str, *sources: str) -> str:
    """The same name for the same sources, for ever: how a retried creation finds what the first one made."""
    text = "\0".join(sources)
    return prefix + _encode(int.from_bytes(sha256(text.encode()).digest()[:17]) >> 6)


def _encode(number: int) -> str:
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)])
