"""When the sweeper looks at what it has heard of, by a clock that may be set."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.commit.deadline_sweeper import EARLIER_MS, DeadlineSweeper
from eventstore.redis_client.clock import Clocks
from eventstore.redis_keys import Keys, member

NOON = 1_795_953_600_000
SESSION = member("acme", "s1")


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(4, shared=True)


@pytest.fixture
def sweeper(clocks: Clocks) -> DeadlineSweeper:
    nobody: Any = None  # nothing is sent
    clocks.store.observe(NOON)
    return DeadlineSweeper(nobody, Keys(4), clocks, nobody)


def test_a_clock_that_is_set_forward_brings_forward_what_is_noted_again(
    sweeper: DeadlineSweeper, clocks: Clocks
) -> None:
    sweeper.deadline_changed(SESSION, NOON + 50_000)
    assert sweeper._take_due() == []
    clocks.store.observe(NOON + 60_000)
    sweeper.deadline_changed(SESSION, NOON + 50_000)
    assert sweeper._take_due() == [SESSION], "and once: the earlier place counts no more"
    assert sweeper._due == {}


def test_what_is_noted_again_and_again_takes_one_place(sweeper: DeadlineSweeper, clocks: Clocks) -> None:
    for better in range(0, EARLIER_MS // 2, 50):  # quicker answers make the clock a little better
        clocks.store.observe(NOON + better)
        sweeper.deadline_changed(SESSION, NOON + 50_000)
    assert len(sweeper._heap) == 1
