"""Whole numbers in few bytes: seven bits a byte, the lowest first; the high bit says that more follow."""

from __future__ import annotations

_LONGEST = 70
"""More bits than any number of ours has."""


class EndsTooEarly(ValueError):
    """The bytes are over before what they should hold."""


def varint(number: int) -> bytes:
    """The bytes of a number that is not negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Varints:
    """Reads parts one after another. Every method raises `EndsTooEarly`."""

    def __init__(self, raw: bytes) -> None:
        self._raw: bytes = raw
        self._at: int = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._raw)

    def take(self, size: int) -> bytes:
        part = self._raw[self._at : self._at + size]
        if len(part) != size:
            raise EndsTooEarly
        self._at += size
        return part

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        number = 0
        for shift in range(0, _LONGEST, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise EndsTooEarly
