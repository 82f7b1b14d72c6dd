"""What Prometheus may scrape. Each server has a registry of its own, so that two can live in one process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from api.http.body_budget import Budget
from eventstore.commit.records import Head, Line
from eventstore.event_store import EventStore
from eventstore.redis_keys import SessionKeys

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Upper bounds of the histogram of answer times, in seconds: from an append to the longest wait of a long poll."""


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # a gauge beside each counter, of when it was made: noise
        registry = self.registry = CollectorRegistry()
        requests = Counter(
            "layby_requests", "Answers, by route and status.", ["method", "route", "status"], registry=registry
        )
        seconds = Histogram(
            "layby_request_seconds",
            "Time until an answer began.",
            ["method", "route"],
            buckets=_BUCKETS_S,
            registry=registry,
        )

        @cache  # `labels` takes a lock and makes strings, which costs as much as the counting
        def series(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
            return requests.labels(method, route, status), seconds.labels(method, route)

        self._series: Callable[[str, str, int], tuple[Counter, Histogram]] = series
        self.in_flight: int = 0
        in_flight = Gauge("layby_requests_in_flight", "Requests being answered, tails among them.", registry=registry)
        in_flight.set_function(lambda: self.in_flight)  # twice a request: a plain number costs less than `inc`
        self._commits: Counter = Counter("layby_commits", "Commits of this process.", registry=registry)
        self._events: Counter = Counter("layby_events", "Events appended by this process.", registry=registry)
        self.open_tails: Gauge = Gauge("layby_open_tails", "Streams that are being followed.", registry=registry)
        self.open_lines: Gauge = Gauge("layby_open_lines", "Lines of publishers that are open.", registry=registry)

    def answered(self, method: str, route: str, status: int, seconds: Collection[float]) -> None:
        """Count answers of one kind that begin now, each this many seconds after its request."""
        answers, times = self._series(method, route, status)
        answers.inc(len(seconds))
        for each in seconds:
            times.observe(each)

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
