"""The engine's clock as a process estimates it: never ahead, whatever was set back or forward."""

from __future__ import annotations

import pytest

from eventstore.redis_client.clock import Clocks, EngineClock

NOON = 1_795_953_600_000


class Monotonic:
    """This process's own clock, in milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 5_000.0
        monkeypatch.setattr("eventstore.redis_client.clock.time.monotonic", lambda: self.ms / 1000)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    return Monotonic(monkeypatch)


def test_it_knows_nothing_before_the_first_answer(own: Monotonic) -> None:
    clock = EngineClock()
    assert not clock.known
    clock.observe(NOON)
    assert clock.known


def test_it_goes_on_with_our_own_clock(own: Monotonic) -> None:
    clock = EngineClock()
    clock.observe(NOON)
    own.ms += 250
    assert clock.now() == NOON + 250


def test_a_slow_answer_does_not_set_it_back(own: Monotonic) -> None:
    clock = EngineClock()
    clock.observe(NOON)
    own.ms += 1_000
    clock.observe(NOON + 400)  # it was under way for 600 ms
    assert clock.now() == NOON + 1_000


def test_a_quick_answer_sets_it_forward(own: Monotonic) -> None:
    clock = EngineClock()
    clock.observe(NOON)  # a slow one
    own.ms += 100
    clock.observe(NOON + 180)
    assert clock.now() == NOON + 180


def test_an_engine_whose_clock_was_set_forward_is_followed(own: Monotonic) -> None:
    clock = EngineClock()
    clock.observe(NOON)
    clock.observe(NOON + 3_600_000)
    assert clock.now() == NOON + 3_600_000


def test_an_engine_whose_clock_was_set_back_is_followed_once_it_says_so(own: Monotonic) -> None:
    clock = EngineClock()
    clock.observe(NOON)
    clock.observe(NOON - 3_600_000)
    assert clock.now() == NOON
    clock.correct(NOON - 3_600_000)
    assert clock.now() == NOON - 3_600_000
    own.ms += 10
    clock.observe(NOON - 3_600_000 + 10)
    assert clock.now() == NOON - 3_600_000 + 10


def test_what_one_engine_told_is_given_up_for_another_that_is_behind_it(own: Monotonic) -> None:
    clock = EngineClock()
    clock.settle(NOON + 60_000, own.ms)
    asked, own.ms = own.ms, own.ms + 400
    clock.settle(NOON, asked)
    assert NOON <= clock.now() <= NOON + 400
    clock.settle(NOON + 90_000, own.ms)
    assert clock.now() == NOON + 90_000


def test_a_slow_answer_does_not_give_up_what_it_does_not_contradict(own: Monotonic) -> None:
    clock = EngineClock()
    clock.settle(NOON, own.ms)
    asked, own.ms = own.ms, own.ms + 3_000
    clock.settle(NOON + 100, asked)
    assert clock.now() == NOON + 3_000, "else what has expired would open again"


def test_it_is_never_ahead_of_answers_that_arrive_at_once(own: Monotonic) -> None:
    clock = EngineClock()
    for step in (0.3, 0.9, 1.7, 0.2, 0.4):
        own.ms += step
        clock.observe(int(NOON + own.ms))
        assert clock.now() <= NOON + own.ms


def test_it_tells_when_our_own_clock_will_show_a_time(own: Monotonic) -> None:
    clock = EngineClock()
    assert clock.here(NOON) == 0.0
    clock.observe(NOON)
    assert clock.here(NOON + 500) == own.ms + 500


def test_partitions_share_the_clock_of_their_one_engine() -> None:
    clocks = Clocks(3, shared=True)
    clocks.of(0).observe(NOON)
    assert clocks.of(2).known and clocks.store.known


def test_where_engines_are_several_each_partition_goes_by_its_own() -> None:
    clocks = Clocks(3, shared=False)
    clocks.of(0).observe(NOON)
    assert not clocks.of(2).known and not clocks.store.known
