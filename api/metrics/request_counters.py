"""What every request counts. Plain numbers, since counting stands on the busiest path; the forms of Prometheus are made
of them when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_BOUNDS: Final = (*map(str, _BUCKETS), "+Inf")


@dataclass(slots=True)
class _Times:
    """How many took at most so long, by bucket, and how long all of them took, in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    total: float = 0.0

    def take(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


class Tallies(Collector):
    """Counted by one thread, the event loop's."""

    def __init__(self) -> None:
        self.in_flight: int = 0
        self.commits: int = 0
        self.events: int = 0
        self._answers: dict[tuple[str, str, int], int] = {}
        self._times: dict[tuple[str, str], _Times] = {}

    def answered(self, method: str, route: str, status: int, seconds: Collection[float]) -> None:
        """So many answers have begun, each after so long."""
        answer, place = (method, route, status), (method, route)
        self._answers[answer] = self._answers.get(answer, 0) + len(seconds)
        if (times := self._times.get(place)) is None:
            times = self._times[place] = _Times()
        for each in seconds:
            times.take(each)

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus has it."""
        yield self._counted()
        yield self._timed()
        yield GaugeMetricFamily(
            "layby_requests_in_flight", "Requests being answered, tails among them.", value=self.in_flight
        )
        yield CounterMetricFamily("layby_commits", "Commits of this process.", value=self.commits)
        yield CounterMetricFamily("layby_events", "Events appended by this process.", value=self.events)

    def _counted(self) -> Metric:
        found = CounterMetricFamily(
            "layby_requests", "Answers, by route and status.", labels=["method", "route", "status"]
        )
        for (method, route, status), count in self._answers.items():
            found.add_metric([method, route, str(status)], count)
        return found

    def _timed(self) -> Metric:
        found = HistogramMetricFamily(
            "layby_request_seconds", "Time until an answer began.", labels=["method", "route"]
        )
        for (method, route), times in self._times.items():
            sums = accumulate(times.counts)
            found.add_metric([method, route], list(zip(_BOUNDS, sums, strict=True)), times.total)
        return found
