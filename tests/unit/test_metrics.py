"""What requests counted, as Prometheus reads it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.http.body_budget import BodyBudget
from api.metrics.registry import Metrics
from eventstore.commit.listener import CommitListener
from eventstore.event_store import EventStore

UNLABELLED = (
    ("layby_requests_in_flight", "gauge", "Requests being answered, tails among them."),
    ("layby_commits", "counter", "Commits of this process."),
    ("layby_events", "counter", "Events appended by this process."),
    ("layby_open_tails", "gauge", "Streams that are being followed."),
    ("layby_open_lines", "gauge", "Lines of publishers that are open."),
    ("layby_followed_sessions", "gauge", "Sessions that are being followed."),
    ("layby_commands_waiting", "gauge", "Commands that wait for their commit."),
    ("layby_divergences", "counter", "Losses of acknowledged events, by partition."),
    ("layby_request_body_bytes", "gauge", "Bytes of request bodies under way."),
)
LABELLED = (
    ("layby_requests", "counter", "Answers, by route and status."),
    ("layby_request_seconds", "histogram", "Time until an answer began."),
)
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
BOUNDS = (*map(str, BUCKETS_S), "+Inf")


class Store:
    """What a store shows of itself, and the listener that it notifies."""

    commands_waiting = 3
    sessions_followed = 2
    listener: CommitListener

    def listen(self, listener: CommitListener) -> None:
        self.listener = listener


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def metrics(store: Store) -> Metrics:
    made = Metrics()
    made.watch(cast(EventStore, store))
    made.watch_bodies(BodyBudget(1))
    return made


def samples(metrics: Metrics) -> dict[str, float]:
    """Each value, by its name and labels as they are written."""
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_names_types_and_help_texts_are_those_that_dashboards_rely_on(metrics: Metrics) -> None:
    found = text_string_to_metric_families(metrics.text().decode())
    assert sorted((one.name, one.type, one.documentation) for one in found) == sorted([*LABELLED, *UNLABELLED])


def test_labels_appear_with_the_first_answer_that_has_them(metrics: Metrics) -> None:
    assert not [name for name in samples(metrics) if "{" in name]
    metrics.requests.answered("POST", "/a", 201, [0.002])
    where = 'method="POST",route="/a"'
    assert [name for name in samples(metrics) if "{" in name] == [
        f'layby_requests_total{{{where},status="201"}}',
        *(f'layby_request_seconds_bucket{{le="{bound}",{where}}}' for bound in BOUNDS),
        f"layby_request_seconds_count{{{where}}}",
        f"layby_request_seconds_sum{{{where}}}",
    ]


def test_nothing_was_counted_yet(metrics: Metrics) -> None:
    found = samples(metrics)
    for name in ("layby_requests_in_flight", "layby_commits_total", "layby_events_total"):
        assert found[name] == 0


def test_answers_are_counted_by_route_and_status_and_timed_by_route(metrics: Metrics) -> None:
    metrics.requests.answered("POST", "/a", 201, [0.002, 0.3])
    metrics.requests.answered("POST", "/a", 409, [61.0])
    found = samples(metrics)
    assert found['layby_requests_total{method="POST",route="/a",status="201"}'] == 2
    assert found['layby_requests_total{method="POST",route="/a",status="409"}'] == 1
    where = 'method="POST",route="/a"'
    bounds = {"0.001": 0, "0.0025": 1, "0.25": 1, "0.5": 2, "60.0": 2, "+Inf": 3}
    for bound, count in bounds.items():
        assert found[f'layby_request_seconds_bucket{{le="{bound}",{where}}}'] == count, bound
    assert found[f"layby_request_seconds_count{{{where}}}"] == 3
    assert found[f"layby_request_seconds_sum{{{where}}}"] == 61.302


def test_a_time_at_a_bound_is_within_it(metrics: Metrics) -> None:
    metrics.requests.answered("GET", "/b", 200, [0.001])
    assert samples(metrics)['layby_request_seconds_bucket{le="0.001",method="GET",route="/b"}'] == 1


def test_commits_events_and_losses_are_counted_as_the_store_reports_them(metrics: Metrics, store: Store) -> None:
    nobody: Any = None
    store.listener.committed(nobody, nobody, [nobody] * 3)
    store.listener.loss_found(1)
    metrics.requests.in_flight += 1
    found = samples(metrics)
    assert (found["layby_commits_total"], found["layby_events_total"], found["layby_divergences_total"]) == (1, 3, 1)
    assert (found["layby_followed_sessions"], found["layby_commands_waiting"]) == (2, 3)
    assert found["layby_requests_in_flight"] == 1
