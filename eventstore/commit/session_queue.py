"""One session's commands on their way: the queue, the head as this process last saw it, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eventstore.commit.batch import Answer, Batch, Pending, Retry
from eventstore.commit.records import Commit, Head, Loaded
from eventstore.domain.draft import Known
from eventstore.domain.errors import IdempotencyKeyReused, LaybyError, RequestInProgress
from eventstore.domain.values import json_text
from eventstore.redis_keys import SessionKeys

CACHED_CALLS = 64
"""Decided calls a cached head keeps."""
CACHED_CHARACTERS = 1_000_000
"""What a cached head keeps of its calls at most; beyond that they are read again when they are needed."""


class SessionQueue:
    """The commands of one session. Only one batch of them is under way at a time."""

    def __init__(self, keys: SessionKeys, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called once for each command that was added, when it leaves the queue."""
        self.keys: SessionKeys = keys
        self._on_answer: Callable[[], None] = on_answer
        self.queue: dict[Pending, None] = {}
        """What has no answer yet. (Not the same as an answer that is not done: whoever waits for it may have gone.)"""
        self.head: Head | None = None
        self.calls: dict[str, Known] = {}
        self.sums: dict[str, str] = {}
        self.running: bool = False
        self.counted: int = 0
        """What the writer has put down for the calls that are remembered here."""
        self.slowness: int = 0
        """How much longer than usual the next commit may be under way, ms: the last one came late."""
        self._sizes: dict[str, int] = {}
        self._retries: dict[str, Pending] = {}

    def add(self, item: Pending) -> None:
        """Queue a command. Raises `RequestInProgress`, `IdempotencyKeyReused` where its key is under way already."""
        if item.retry:
            self._refuse_running(item.retry)
            self._retries[item.retry.field] = item
        self.queue[item] = None

    def under_way(self, retry: Retry) -> Pending | None:
        """The command with this key that has no answer yet. Raises `IdempotencyKeyReused` if it is another one."""
        running = self._retries.get(retry.field)
        if running and running.retry and running.retry.fingerprint != retry.fingerprint:
            raise reused()
        return running

    def _refuse_running(self, retry: Retry) -> None:
        if self.under_way(retry):
            raise RequestInProgress(
                "the first request with this Idempotency-Key is still running; try again in a moment"
            )

    def forget(self) -> None:
        """Nothing that is remembered of the session can be relied on."""
        self.head = None
        self._forget_calls()

    def _forget_calls(self) -> None:
        self.calls, self.sums, self._sizes = {}, {}, {}

    @property
    def weight(self) -> int:
        """About how many characters the calls hold that are remembered."""
        return sum(self._sizes.values())

    def take_head(self, head: Head) -> None:
        """A head that was read: what is known of calls holds only as long as the revision stays."""
        if self.head is None or self.head.revision != head.revision:
            self._forget_calls()
        self.head = head

    def remembers(self, loaded: Loaded) -> bool:
        """Whether what was read is what is remembered, record by record."""
        known = (name in self.calls and self.sums.get(name) == loaded.sums.get(name) for name in loaded.calls)
        return self.head is not None and self.head.revision == loaded.head.revision and all(known)

    def committed(self, commit: Commit) -> None:
        self.head = commit.head
        self.know(commit.calls, commit.sums)

    def know(self, calls: Mapping[str, Known], sums: Mapping[str, str]) -> None:
        """Remember calls as they stand at this head, and the sums of their records."""
        self.calls.update(calls)
        self.sums.update(sums)
        self._sizes.update((interrupt_id, len(repr(call))) for interrupt_id, call in calls.items())

    def trim(self) -> None:
        """Forget calls that neither wait nor run, and all if that is too much. Only between batches: one batch may need
        more than are kept."""
        if self.head and len(self.calls) > CACHED_CALLS:
            session = self.head.session
            self.calls = {i: call for i, call in self.calls.items() if i in session.waiting or i in session.leases}
            self.sums = {i: sum_ for i, sum_ in self.sums.items() if i in self.calls}
            self._sizes = {i: size for i, size in self._sizes.items() if i in self.calls}
        if self.calls and self.weight > CACHED_CHARACTERS:
            self._forget_calls()

    def resolve(self, batch: Batch, durability: str) -> None:
        """The batch holds: everyone who was decided in it hears so."""
        for item, outcome in batch.outcomes:
            if isinstance(outcome, LaybyError):
                self.refuse(item, outcome)
            else:
                self._answer(item, Answer(outcome, durability))

    def replay(self, item: Pending, record: str) -> None:
        """The command was carried out before: it hears what was answered then, if it is the same request."""
        kept = json_text.read(record)
        if item.retry and kept["fingerprint"] != item.retry.fingerprint:
            self.refuse(item, reused())
        else:
            self._answer(item, Answer(kept["result"], replayed=True))

    def refuse(self, item: Pending, error: Exception) -> None:
        self._done(item)
        if not item.answer.done():
            item.answer.set_exception(error)
            item.answer.exception()  # looked at, should nobody else do so: whoever asked may have gone

    def _answer(self, item: Pending, answer: Answer) -> None:
        self._done(item)
        if not item.answer.done():
            item.answer.set_result(answer)

    def _done(self, item: Pending) -> None:
        if item in self.queue:
            del self.queue[item]
            self._on_answer()
        if item.retry:
            self._retries.pop(item.retry.field, None)


def reused() -> IdempotencyKeyReused:
    """What a key hears that came with another body."""
    return IdempotencyKeyReused("this Idempotency-Key was used with another body; use a new key for a new request")
