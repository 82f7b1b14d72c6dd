"""Who must be woken by a commit. Waking only saves time: whoever is woken reads by offset, so a lost wake-up costs
latency, bounded by a slow poll, and never an event."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from eventstore.commit.records import Head, Line
from eventstore.log.followed_session import Topic
from eventstore.redis_keys import Keys, SessionKeys


class Hub:
    """Hands news of commits, this process's and others', to readers, projectors and the sweeper."""

    def __init__(self, keys: Keys) -> None:
        self._keys: Keys = keys
        self._topics: dict[str, Topic] = {}
        self.on_partition: list[Callable[[int], None]] = []
        self.on_due: list[Callable[[str, int | None], None]] = []
        self.on_resync: list[Callable[[], None]] = []
        self.on_loss: list[Callable[[], None]] = []

    @contextmanager
    def watch(self, keys: SessionKeys) -> Generator[Topic]:
        """Follow a session. Watch first, read then: what is committed in between wakes the reader."""
        topic = self._topics.setdefault(keys.member, Topic())
        topic.readers += 1
        try:
            yield topic
        finally:
            topic.readers -= 1
            if not topic.readers:
                self._topics.pop(keys.member, None)

    @property
    def watched(self) -> int:
        """How many sessions are followed."""
        return len(self._topics)

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        """A commit of this process: readers need not ask the store for it."""
        if topic := self._topics.get(keys.member):
            topic.remember(lines)
            topic.ended = topic.ended or head.session.ended
            if head.deleted:
                topic.doubt()
            else:
                topic.heard(head.session.seq)
        self._news(keys.partition.number)

    def committing(self, keys: SessionKeys, under_way: bool) -> None:
        """A commit of this process has begun, or is over: if it took place, `committed` was told before."""
        if topic := self._topics.get(keys.member):
            topic.committing(under_way)

    def announced(self, partition: int, member: str, seq: int | None, due: int | None) -> None:
        """A commit that some process announced; `seq` is None for a deletion."""
        if topic := self._topics.get(member):
            if seq is None:
                topic.doubt()
            else:
                topic.announced(seq)
        self._news(partition)
        # Of deadlines we hear here alone: the engine announces our own commits too, all in the order they were made.
        for listener in self.on_due:
            listener(member, due)

    def lost(self, keys: SessionKeys | None = None) -> None:
        """The store does not hold what it has acknowledged; of this session, if it is known of which."""
        if keys and (topic := self._topics.get(keys.member)):
            topic.doubt()
        for listener in self.on_loss:
            listener()

    def resync(self) -> None:
        """Announcements may have been missed: everyone looks for himself."""
        self.doubt()
        for listener in self.on_resync:
            listener()

    def doubt(self) -> None:
        """Let all readers and projectors look into the store, whatever is known here."""
        for topic in self._topics.values():
            topic.doubt()
        for listener in self.on_partition:
            for number in range(self._keys.partitions):
                listener(number)

    def _news(self, partition: int) -> None:
        for listener in self.on_partition:
            listener(partition)
