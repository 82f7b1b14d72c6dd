"""What every request counts, in the metrics of prometheus-client; a series appears with its first answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Upper bounds of the histogram of answer times, in seconds: from an append to the longest wait of a long poll."""


class RequestCounters:
    """Answers by method, route and status, how long they took, and how many requests are in flight."""

    def __init__(self, registry: CollectorRegistry) -> None:
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

    def answered(self, method: str, route: str, status: int, seconds: Collection[float]) -> None:
        """Count answers of one kind that begin now, each this many seconds after its request."""
        answers, times = self._series(method, route, status)
        answers.inc(len(seconds))
        for each in seconds:
            times.observe(each)
