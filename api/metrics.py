"""What Prometheus may scrape. Each server has a registry of its own, so that two can live in one process."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from api.budget import Budget
from eventstore.eventstore import EventStore
from eventstore.keys import SessionKeys
from eventstore.store import Head, Line

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # a gauge beside each counter, of when it was made: noise
        self.registry: CollectorRegistry = CollectorRegistry()
        own, where = self.registry, ["method", "route"]
        self._requests: Counter = Counter(
            "layby_requests", "Answers, by route and status.", [*where, "status"], registry=own
        )
        self._seconds: Histogram = Histogram(
            "layby_request_seconds", "Time until an answer began.", where, buckets=_BUCKETS, registry=own
        )
        self.in_flight: Gauge = Gauge(
            "layby_requests_in_flight", "Requests being answered, tails among them.", registry=own
        )
        self.open_tails: Gauge = Gauge("layby_open_tails", "Streams that are being followed.", registry=own)
        self.open_lines: Gauge = Gauge("layby_open_lines", "Lines of publishers that are open.", registry=own)
        self._commits: Counter = Counter("layby_commits", "Commits of this process.", registry=own)
        self._events: Counter = Counter("layby_events", "Events appended by this process.", registry=own)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """An answer has begun."""
        self.all_answered(method, route, status, (seconds,))

    def all_answered(self, method: str, route: str, status: int, seconds: Collection[float]) -> None:
        """So many at once have begun, each after so long."""
        key = (method, route, status)
        if (children := self._children.get(key)) is None:  # looking a child up by its labels is slow
            requests = self._requests.labels(method, route, str(status))
            children = self._children[key] = (requests, self._seconds.labels(method, route))
        children[0].inc(len(seconds))
        for each in seconds:
            children[1].observe(each)

    def watch(self, store: EventStore) -> None:
        """Count what this store does."""
        store.writer.on_commit.append(self._committed)
        followed = Gauge("layby_followed_sessions", "Sessions that are being followed.", registry=self.registry)
        followed.set_function(lambda: store.hub.watched)
        waiting = Gauge("layby_commands_waiting", "Commands that wait for their commit.", registry=self.registry)
        waiting.set_function(lambda: store.writer.waiting)
        lost = Counter("layby_divergences", "Losses of acknowledged events, by partition.", registry=self.registry)
        store.watch.on_noticed.append(lost.inc)

    def watch_bodies(self, budget: Budget) -> None:
        """Show what this budget holds."""
        held = Gauge("layby_request_body_bytes", "Bytes of request bodies under way.", registry=self.registry)
        held.set_function(lambda: budget.held)

    def _committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        self._commits.inc()
        self._events.inc(len(lines))

    def text(self) -> bytes:
        """In the Prometheus text format."""
        return generate_latest(self.registry)
