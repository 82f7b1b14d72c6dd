"""What requests counted, as Prometheus reads it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from api.metrics.request_counters import Tallies


def told(tallies: Tallies) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(tallies)
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_nothing_was_counted_yet() -> None:
    assert told(Tallies()) == {
        "layby_requests_in_flight": 0, "layby_commits_total": 0, "layby_events_total": 0,
    }  # fmt: skip


def test_answers_are_counted_by_route_and_status_and_timed_by_route() -> None:
    tallies = Tallies()
    tallies.answered("POST", "/a", 201, [0.002, 0.3])
    tallies.answered("POST", "/a", 409, [61.0])
    found = told(tallies)
    assert found['layby_requests_total{method="POST",route="/a",status="201"}'] == 2
    assert found['layby_requests_total{method="POST",route="/a",status="409"}'] == 1
    where = 'method="POST",route="/a"'
    bounds = {"0.001": 0, "0.0025": 1, "0.25": 1, "0.5": 2, "60.0": 2, "+Inf": 3}
    for bound, count in bounds.items():
        assert found[f'layby_request_seconds_bucket{{le="{bound}",{where}}}'] == count, bound
    assert found[f"layby_request_seconds_count{{{where}}}"] == 3
    assert found[f"layby_request_seconds_sum{{{where}}}"] == 61.302


def test_a_time_at_a_bound_is_within_it() -> None:
    tallies = Tallies()
    tallies.answered("GET", "/b", 200, [0.001])
    assert told(tallies)['layby_request_seconds_bucket{le="0.001",method="GET",route="/b"}'] == 1
