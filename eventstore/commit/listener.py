"""What the parts of a process that depend on commits want to know of them."""

from __future__ import annotations

from eventstore.commit.records import Head, Line
from eventstore.redis_keys import SessionKeys


class CommitListener:
    """Overrides what it wants to know; the rest does nothing.

    Every method is called on the event loop. Those about the commits of this process are called before the commands
    have their answers, so they must be quick and must not raise.
    """

    def commit_started(self, keys: SessionKeys) -> None:
        """A commit of this process is about to be sent."""

    def commit_ended(self, keys: SessionKeys) -> None:
        """Its outcome is known, or never will be. If it took place, `committed` was called before."""

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        """A commit of this process is acknowledged. A deletion has a head that is `deleted`, and no lines."""

    def feed_entry_written(self, keys: SessionKeys, entry: bytes, first: int, last: int) -> None:
        """A commit of this process added this entry to the feed, for events `first` to `last` (0 for a deletion)."""

    def partition_changed(self, partition: int) -> None:
        """A process, perhaps this one, has committed something in this partition; or that may have been missed."""

    def deadline_changed(self, member: str, due: int | None) -> None:
        """The next deadline of a session is `due`, in ms of its engine's clock; None if it has none, 0 if it may have
        passed. `member` names the session in the indexes."""

    def announcements_missed(self) -> None:
        """The subscription to the commits of other processes began, or began anew."""

    def loss_suspected(self, keys: SessionKeys | None = None) -> None:
        """The store does not hold what it has acknowledged; of this session, if it is known of which."""

    def loss_found(self, partitions: int) -> None:
        """The loss of acknowledged events is certain, and recorded, in this many partitions."""
