"""What a projector has not taken in yet: the feed behind the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import ScriptCall
from projections import redis_keys
from projections.redis_keys import Layout

UNREAD = scripts.load("projections", "read_unprojected", writes=False)
ENTRIES = 256


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """What follows the checkpoint ("" before the first entry), as far as one reading gives, and where the feed ends:
    the sessions that the entries name, each with its commits (their first and last events), and which of those were
    deleted."""

    generation: str
    checkpoint: str
    newest: str
    trimmed: bool
    last: str
    members: dict[tuple[str, str], list[tuple[int, int]]]
    deleted: set[tuple[str, str]]

    def reaches(self, goal: str) -> bool:
        """Whether everything up to this entry of the feed was taken in, or all that is left of it: the feed may have
        lost its newest entries, the goal among them."""
        if self.checkpoint == self.newest or not self.newest:
            return True
        return not self.trimmed and _place(self.checkpoint) >= _place(goal)

    def completes(self, goal: str) -> bool:
        """Whether these entries lead up to this one, so that nothing is missing once they were taken in."""
        return _place(self.last) >= _place(goal)


def _place(entry: str) -> tuple[int, int]:
    ms, _, number = (entry or "0-0").partition("-")
    return int(ms), int(number)


def feed_batch_call(layout: Layout) -> ScriptCall:
    keys = [redis_keys.current(layout.partition), layout.checkpoint, layout.partition.feed]
    return ScriptCall(UNREAD, keys, [ENTRIES])


def decode_feed_batch(reply: Sequence[Any]) -> FeedBatch:
    pointer, checkpoint, newest, trimmed, *entries = reply
    members, deleted = dict[tuple[str, str], list[tuple[int, int]]](), set[tuple[str, str]]()
    for _, pairs in entries:
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        member = (fields[b"t"].decode(), fields[b"s"].decode())
        commits = members.setdefault(member, [])
        if b"d" in fields:
            deleted.add(member)
        else:
            commits.append((int(fields[b"f"]), int(fields[b"l"])))
    before = (checkpoint or b"").decode()
    last = entries[-1][0].decode() if entries else before
    return FeedBatch(
        redis_keys.generation(pointer), before, (newest or b"").decode(), trimmed == b"1", last, members, deleted
    )
