"""Wakes the readers of a session after a commit, and passes news of commits on to the other parts of the process.

Notifications only save time: a reader reads by offset, so a lost one costs latency, bounded by a slow poll, and never
an event.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Head, Line
from eventstore.log.followed_session import FollowedSession
from eventstore.redis_keys import Keys, SessionKeys


class CommitNotifier(CommitListener):
    """Learns of commits from the writer of this process and from the announcements of others, and notifies the readers
    of the session and every listener that was added."""

    def __init__(self, keys: Keys) -> None:
        self._keys: Keys = keys
        self._topics: dict[str, FollowedSession] = {}
        self._listeners: list[CommitListener] = []

    def add(self, listener: CommitListener) -> None:
        """Notify this listener from now on."""
        self._listeners.append(listener)

    def remove(self, listener: CommitListener) -> None:
        """Stop notifying this listener, if it was added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    @contextmanager
    def follow(self, keys: SessionKeys) -> Generator[FollowedSession]:
        """Follow a session. Begin to follow first and read then: a commit in between wakes the reader."""
        topic = self._topics.setdefault(keys.member, FollowedSession())
        topic.readers += 1
        try:
            yield topic
        finally:
            topic.readers -= 1
            if not topic.readers:
                self._topics.pop(keys.member, None)

    @property
    def followed(self) -> int:
        """How many sessions have readers in this process."""
        return len(self._topics)

    # Commits of this process, by its writer

    def commit_started(self, keys: SessionKeys) -> None:
        if topic := self._topics.get(keys.member):
            topic.committing(under_way=True)

    def commit_ended(self, keys: SessionKeys) -> None:
        if topic := self._topics.get(keys.member):
            topic.committing(under_way=False)

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        if topic := self._topics.get(keys.member):
            topic.remember(lines)
            topic.ended = topic.ended or head.session.ended
            if head.deleted:
                topic.doubt()
            else:
                topic.heard(head.session.seq)
        for listener in self._listeners:
            listener.committed(keys, head, lines)
        self.partition_changed(keys.partition.number)

    def feed_entry_written(self, keys: SessionKeys, entry: bytes, first: int, last: int) -> None:
        for listener in self._listeners:
            listener.feed_entry_written(keys, entry, first, last)

    # Commits of any process, by their announcements

    def announced(self, partition: int, member: str, seq: int | None, due: int | None) -> None:
        """An engine announced a commit: the newest seq of its session (None for a deletion) and its next deadline."""
        if topic := self._topics.get(member):
            if seq is None:
                topic.doubt()
            else:
                topic.announced(seq)
        self.partition_changed(partition)
        # Deadlines come from here alone: the engine announces this process's commits too, all in their order.
        self.deadline_changed(member, due)

    def partition_changed(self, partition: int) -> None:
        for listener in self._listeners:
            listener.partition_changed(partition)

    def deadline_changed(self, member: str, due: int | None) -> None:
        for listener in self._listeners:
            listener.deadline_changed(member, due)

    def announcements_missed(self) -> None:
        self.invalidate()
        for listener in self._listeners:
            listener.announcements_missed()

    # What the store has lost

    def loss_suspected(self, keys: SessionKeys | None = None) -> None:
        if keys and (topic := self._topics.get(keys.member)):
            topic.doubt()
        for listener in self._listeners:
            listener.loss_suspected(keys)

    def loss_found(self, partitions: int) -> None:
        self.invalidate()
        for listener in self._listeners:
            listener.loss_found(partitions)

    def invalidate(self) -> None:
        """Make all readers and projectors read the store, whatever this process knows of it."""
        for topic in self._topics.values():
            topic.doubt()
        for number in range(self._keys.partitions):
            self.partition_changed(number)
