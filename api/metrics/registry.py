"""The metrics of one server, for Prometheus. Each server has a registry of its own: two may live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from api.http.body_budget import BodyBudget
from api.metrics.request_counters import RequestCounters
from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Head, Line
from eventstore.event_store import EventStore
from eventstore.redis_keys import SessionKeys


class Metrics(CommitListener):
    """Counts requests, open streams and lines, and what a store commits."""

    def __init__(self) -> None:
        disable_created_metrics()  # a gauge beside each counter, of when it was made: noise
        registry = self._registry = CollectorRegistry()
        self.requests: RequestCounters = RequestCounters(registry)
        self._commits: Counter = Counter("layby_commits", "Commits of this process.", registry=registry)
        self._events: Counter = Counter("layby_events", "Events appended by this process.", registry=registry)
        self.open_tails: Gauge = Gauge("layby_open_tails", "Streams that are being followed.", registry=registry)
        self.open_lines: Gauge = Gauge("layby_open_lines", "Lines of publishers that are open.", registry=registry)
        losses = "Losses of acknowledged events, by partition."
        self._losses: Counter = Counter("layby_divergences", losses, registry=registry)

    def watch(self, store: EventStore) -> None:
        """Count the commits of this store, and show its readers and waiting commands."""
        store.listen(self)
        followed = Gauge("layby_followed_sessions", "Sessions that are being followed.", registry=self._registry)
        followed.set_function(lambda: store.sessions_followed)
        waiting = Gauge("layby_commands_waiting", "Commands that wait for their commit.", registry=self._registry)
        waiting.set_function(lambda: store.commands_waiting)

    def watch_bodies(self, budget: BodyBudget) -> None:
        """Show how many bytes this budget holds."""
        held = Gauge("layby_request_body_bytes", "Bytes of request bodies under way.", registry=self._registry)
        held.set_function(lambda: budget.held)

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        self._commits.inc()
        self._events.inc(len(lines))

    def loss_found(self, partitions: int) -> None:
        self._losses.inc(partitions)

    def text(self) -> bytes:
        """All of it in the Prometheus text format."""
        return generate_latest(self._registry)
