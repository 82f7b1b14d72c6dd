"""How the proof of expiry judges: what it measures by a margin that noise does not cross, and a server that does not
answer by its logs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from proofs.engines import Engine
from proofs.expiry.parts import SLOWER_AT_MOST, certain
from proofs.expiry.scene import Due, Expired, Scene
from proofs.proof import Breach, Run
from proofs.servers import Server

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


class Silent(Scene):
    """A server that takes what is asked and does not answer; so often has each of its calls expired."""

    times = 0

    async def now(self) -> int:
        return 1_800_000_000_000

    async def _asked(self, due: Iterable[Due]) -> bool:
        self.due += due
        raise TimeoutError

    def _expired(self, names: Sequence[str]) -> list[list[Expired]]:
        ours = {name: [one for one in self.due if one.session_id == name] for name in names}
        return [[Expired(one.interrupt_id, one.at, one.at) for one in ours[name]] * self.times for name in names]


@pytest.mark.parametrize(("times", "heard"), [(0, TimeoutError), (1, TimeoutError), (2, Breach)])
def test_a_server_that_does_not_answer_is_wrong_only_if_a_call_expired_twice(
    tmp_path: Path, times: int, heard: type[Exception]
) -> None:
    """What was asked and has not expired need not be due yet."""
    run = Run("expiry", "quick", tmp_path, seed=1)
    scene = Silent(run, Engine(tmp_path / "engine"), Server(tmp_path / "server"))
    scene.requests_per_s, scene.times = 100.0, times
    with pytest.raises(heard):
        asyncio.run(scene.ask("mass", [0, 1, 2]))
