"""What Prometheus may scrape. Each server has a registry of its own, so that two can live in one process."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from api.http.body_budget import Budget
from api.metrics.request_counters import Tallies
from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Head, Line
from eventstore.event_store import EventStore
from eventstore.redis_keys import SessionKeys


class Metrics(CommitListener):
    """The counters of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # a gauge beside each counter, of when it was made: noise
        self.registry: CollectorRegistry = CollectorRegistry()
        self.tallies: Tallies = Tallies()
        self.registry.register(self.tallies)
        self.open_tails: Gauge = Gauge("layby_open_tails", "Streams that are being followed.", registry=self.registry)
        losses = "Losses of acknowledged events, by partition."
        self._losses: Counter = Counter("layby_divergences", losses, registry=self.registry)
        self.open_lines: Gauge = Gauge("layby_open_lines", "Lines of publishers that are open.", registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """An answer has begun."""
        self.tallies.answered(method, route, status, (seconds,))

    def all_answered(self, method: str, route: str, status: int, seconds: Collection[float]) -> None:
        """So many at once have begun, each after so long."""
        self.tallies.answered(method, route, status, seconds)

    def watch(self, store: EventStore) -> None:
        """Count what this store does."""
        store.listen(self)
        followed = Gauge("layby_followed_sessions", "Sessions that are being followed.", registry=self.registry)
        followed.set_function(lambda: store.sessions_followed)
        waiting = Gauge("layby_commands_waiting", "Commands that wait for their commit.", registry=self.registry)
        waiting.set_function(lambda: store.commands_waiting)

    def watch_bodies(self, budget: Budget) -> None:
        """Show what this budget holds."""
        held = Gauge("layby_request_body_bytes", "Bytes of request bodies under way.", registry=self.registry)
        held.set_function(lambda: budget.held)

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        self.tallies.commits += 1
        self.tallies.events += len(lines)

    def loss_found(self, partitions: int) -> None:
        self._losses.inc(partitions)

    def text(self) -> bytes:
        """In the Prometheus text format."""
        return generate_latest(self.registry)
