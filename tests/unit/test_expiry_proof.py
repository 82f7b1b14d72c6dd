"""How the proof of expiry judges what it measures: by a margin that noise does not cross."""

from __future__ import annotations

import random

import pytest

from proofs.expiry.parts import SLOWER_AT_MOST, certain

PAIRS = 30


def noisy(middle: float, seed: int) -> list[float]:
    source = random.Random(seed)
    return [middle * source.lognormvariate(0, 0.3) for _ in range(PAIRS)]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_breach(seed: int) -> None:
    least, most = certain(noisy(1.0, seed), random.Random(seed))
    assert least <= SLOWER_AT_MOST and least < most


@pytest.mark.parametrize("seed", range(20))
def test_appends_that_take_twice_as_long_are_one(seed: int) -> None:
    least, most = certain(noisy(2.0, seed), random.Random(seed))
    assert SLOWER_AT_MOST < least < 2.6 and most > 1.5
