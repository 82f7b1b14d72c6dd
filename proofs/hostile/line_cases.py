"""What a hostile client says on a line: each kind of trouble, made anew each time from the same seed."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

from proofs.hostile.cases import KIB, STRANGE_LINES, WRONG_LINES
from proofs.line import BINARY, CLOSE, CONTINUED, PING, PONG, TEXT, frame

MOST = 4 * KIB * KIB + 64 * KIB
"""So many bytes may a message have."""
_EVENT = b'{"type":"a.b"}'


@dataclass(frozen=True, slots=True)
class Talk:
    """What one client says, and what must come of it."""

    kind: str
    data: bytes
    answers: int = 0
    batches: tuple[int, ...] | None = ()
    """How many events each message brings that is right, in their order; None where nobody can say."""
    codes: tuple[int, ...] = ()
    """What the server may close with, once it has answered. Without any the client says goodbye."""
    ends: bool = False
    """The client leaves without a goodbye, and without waiting: what it sent last may be taken or not."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.data[:300]!r}{'…' if len(self.data) > 300 else ''}"


@dataclass(slots=True)
class LineCases:
    """Talks, each for a line of its own."""

    chance: random.Random
    number: int = 0

    def next(self) -> Talk:
        return self.chance.choices(_MAKERS, _WEIGHTS)[0](self)

    def _talk(self, kind: str, last: bytes, codes: tuple[int, ...] = (), *, answers: int = 0, events: int = 0) -> Talk:
        """Some good messages, and then this; if it closes nothing, some more."""
        before, after = self._some(), () if codes else self._some()
        batches = (*(count for _, count in before), *((events,) if events else ()), *(count for _, count in after))
        data = b"".join((*(one for one, _ in before), last, *(one for one, _ in after)))
        return Talk(kind, data, len(before) + answers + len(after), batches, codes)

    def _some(self) -> tuple[tuple[bytes, int], ...]:
        counts = self.chance.choices((1, 2, 50), (6, 3, 1), k=self.chance.randrange(5))
        return tuple((self._frame(self._message(count)), count) for count in counts)

    def _message(self, count: int = 1) -> bytes:
        self.number += 1
        events = [{"type": "a.b", "data": {"n": self.number, "i": i, "text": "é"}} for i in range(count)]
        return json.dumps({"id": str(self.number), "events": events}, ensure_ascii=False).encode()

    def _frame(self, payload: bytes, kind: int = TEXT, *, last: bool = True) -> bytes:
        return frame(payload, kind, last=last, mask=self.chance.randbytes(4))

    # Messages

    def many(self) -> Talk:
        """Far more than may be unanswered, without waiting."""
        count = self.chance.choice((65, 500, 2_000))
        frames = [self._frame(self._message()) for _ in range(count)]
        return Talk("many at once", b"".join(frames), count, (1,) * count)

    def wrong(self) -> Talk:
        """A message of which nothing may be kept."""
        line = self.chance.choice([line for line in WRONG_LINES if _is_text(line)])
        batch = b'{"id":"w","events":[%s,%s,%s]}' % (_EVENT, line, _EVENT)
        return self._talk("no message", self._frame(self.chance.choice((line, batch, *_WRONG_MESSAGES))), answers=1)

    def strange(self) -> Talk:
        chosen = self.chance.sample(STRANGE_LINES, k=self.chance.randint(1, 3))
        message = b'{"events":[%s],"id":" ~[]"}' % b",".join(chosen)
        return self._talk("strange events", self._frame(message), answers=1, events=len(chosen))

    def too_much(self) -> Talk:
        """Too large an event, or too many."""
        events = self.chance.choice((b'{"type":"a.b","data":{"x":"%s"}}' % (b"y" * 300 * KIB), _EVENT + b"," + _EVENT))
        many = b",".join([_EVENT] * 1_001) if len(events) < KIB else events
        return self._talk("too many events", frame(b'{"id":"t","events":[%s]}' % many), answers=1)

    # Frames

    def fragments(self) -> Talk:
        """A good message in pieces of any size, with pings between them."""
        parts, rest, kind = list[bytes](), self._message(3), TEXT
        while rest:
            size = self.chance.randint(0, len(rest))
            parts.append(self._frame(rest[:size], kind, last=size == len(rest)))
            parts.append(self._frame(b"?", self.chance.choice((PING, PONG))))
            rest, kind = rest[size:], CONTINUED
        return self._talk("fragments", b"".join(parts), answers=1, events=3)

    def endless(self) -> Talk:
        """A message of fragments without an end."""
        part = frame(b"x" * KIB, CONTINUED, last=False)
        return self._talk("endless fragments", frame(b"", TEXT, last=False) + part * (MOST // KIB + 1), (1009,))

    def nothing(self) -> Talk:
        """The same, and there is nothing in them."""
        data = frame(b"", TEXT, last=False) + frame(b"", CONTINUED, last=False) * 5_000
        return Talk("empty fragments", data, ends=True)

    def too_large(self) -> Talk:
        """A frame that announces more than a message may have."""
        size, codes = self.chance.choice(((MOST + 1, (1009,)), (1 << 40, (1009,)), (1 << 63, (1002, 1009))))
        head = struct.pack("!BBQ", 0x81, 0x80 | 127, size) + bytes(4)
        return self._talk("too large a frame", head + b"x" * self.chance.choice((0, 10, 100_000)), codes)

    def unmasked(self) -> Talk:
        message = self._message()
        return self._talk("without a mask", bytes((0x81, len(message))) + message, (1002,))

    def no_text(self) -> Talk:
        text = self.chance.choice((b"\xff", b"\xc3(", b"\xed\xa0\x80", b'{"id":"1","events":[{"type":"a.\xe9"}]}'))
        first, second = self._frame(text[:1], last=False), self._frame(text[1:], CONTINUED)
        return self._talk("no UTF-8", self.chance.choice((self._frame(text), first + second)), (1007,))

    def binary(self) -> Talk:
        return self._talk("binary", self._frame(self._message(), BINARY), (1003,))

    def broken(self) -> Talk:
        """Frames that break the rules of WebSockets."""
        reserved = self._frame(self._message())
        frames = (
            *(bytes((reserved[0] | bit,)) + reserved[1:] for bit in (0x10, 0x20, 0x40)),
            *(self._frame(b"", kind) for kind in (3, 7, 11, 15)),
            *(self._frame(b"", kind, last=False) for kind in (PING, CLOSE)),
            self._frame(b"x" * 126, PING),
            self._frame(b"x", CONTINUED),
            self._frame(b"x", last=False) + self._frame(b"y"),
            *(self._frame(code.to_bytes(2), CLOSE) for code in (0, 999, 1005, 1006, 1015, 65_535)),
            self._frame(b"\x03", CLOSE),
        )
        return self._talk("a broken frame", self.chance.choice(frames), (1002,))

    def goodbye(self) -> Talk:
        return self._talk("a goodbye", self._frame((1000).to_bytes(2), CLOSE), (1000,))

    def after_goodbye(self) -> Talk:
        """What comes behind it counts no more. Who sends it may be hung up on before all answers are there."""
        frames = self._some()
        data = b"".join(one for one, _ in frames) + self._frame((1000).to_bytes(2), CLOSE)
        more = self._frame(self._message(7)) * self.chance.choice((1, 100))
        return Talk("more after a goodbye", data + more, batches=tuple(count for _, count in frames), ends=True)

    def pings(self) -> Talk:
        return self._talk("a flood of pings", self._frame(b"x" * 125, PING) * 1_000)

    # The end

    def left(self) -> Talk:
        """A client that goes in the middle of a frame."""
        frames = self._some()
        data = b"".join(one for one, _ in frames) + self._frame(self._message(3))[: self.chance.randrange(40)]
        return Talk("a line left", data, batches=tuple(count for _, count in frames), ends=True)

    def changed(self) -> Talk:
        """Good frames with a few bytes changed."""
        data = bytearray(b"".join(self._frame(self._message(2)) for _ in range(4)))
        for _ in range(self.chance.randint(1, 8)):
            at = self.chance.randrange(len(data))
            data[at : at + self.chance.randrange(3)] = self.chance.randbytes(self.chance.randrange(4))
        return Talk("bytes of frames changed", bytes(data), batches=None, ends=True)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_WRONG_NAMES = (b"1", b'""', b"null", b"[]", b'"%s"' % (b"x" * 201), b'"\xc3\xa9"')
_WRONG_MESSAGES = (
    *(b"", b"[]", b"[" * 5_000, b'{"a":' * 50_000, b'{"id":"1"}', b'{"events":[%s]}' % _EVENT),
    *(
        b'{"id":%s,"events":[%s]}' % (name, _EVENT)
        for name in (b"1", b'""', b"null", b"[]", b'"%s"' % (b"x" * 201), b'"\xc3\xa9"')
    ),
    *(b'{"id":"1","events":%s}' % events for events in (b"[]", b"{}", b"null", b'"x"', _EVENT, b"[[]]")),
    *(b'{"id":"1","events":[%s],%s}' % (_EVENT, more) for more in (b'"x":1', b'"expected_seq":"1"')),
    *(b'{"id":"1","events":[%s],"expected_seq":%s}' % (_EVENT, seq) for seq in (b"-1", b"1.5", b"9" * 40, b"true")),
)
_KINDS: dict[Callable[[LineCases], Talk], int] = {
    LineCases.many: 2,
    LineCases.wrong: 20,
    LineCases.strange: 6,
    LineCases.too_much: 2,
    LineCases.fragments: 8,
    LineCases.endless: 1,
    LineCases.nothing: 1,
    LineCases.too_large: 6,
    LineCases.unmasked: 4,
    LineCases.no_text: 6,
    LineCases.binary: 4,
    LineCases.broken: 14,
    LineCases.goodbye: 2,
    LineCases.after_goodbye: 6,
    LineCases.pings: 2,
    LineCases.left: 8,
    LineCases.changed: 20,
}
_MAKERS, _WEIGHTS = list(_KINDS), list(_KINDS.values())
