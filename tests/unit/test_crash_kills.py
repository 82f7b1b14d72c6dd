"""How the crash proof kills a rebuild, where the one before it may have left its lock behind."""

from __future__ import annotations

from subprocess import CompletedProcess
from typing import Any

import pytest

from proofs.crash import kills
from proofs.crash.kills import HELD, Kill, Kills
from proofs.crash.points import POINTS
from proofs.proof import Breach

pytestmark = pytest.mark.anyio
KILL = Kill(private=True, victims="both", point=next(point for point in POINTS if point.by == "rebuild"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Stage:
    """Rebuilds that say these things in turn; after the last of them, the point was reached if it is `reached`."""

    def __init__(self, *said: str, reached: bool) -> None:
        self.said, self.reached, self.server = list(said), reached, self
        self.rebuilds = 0

    @property
    def armed(self) -> bool:
        return not (self.reached and self.rebuilds == len(self.said))

    def layby(self, command: str) -> CompletedProcess[str]:
        self.rebuilds += 1
        return CompletedProcess(command, 2, "", self.said[self.rebuilds - 1])


class Load:
    def __init__(self, wrong: Exception | None = None) -> None:
        self.wrong = wrong

    async def check(self) -> None:
        if self.wrong:
            raise self.wrong


async def rebuild(stage: Stage, load: Load) -> None:
    ours: Any = Kills.__new__(Kills)
    ours._stage = stage
    await ours._rebuild(KILL, load)


async def test_a_rebuild_that_finds_a_lock_is_made_again_until_the_point_is_reached() -> None:
    stage = Stage(f"layby: {HELD}", f"layby: {HELD}", "", reached=True)
    await rebuild(stage, Load())
    assert stage.rebuilds == 3


async def test_a_rebuild_that_ends_otherwise_is_told_with_what_it_said() -> None:
    stage = Stage("layby: Redis refuses", reached=False)
    with pytest.raises(AssertionError, match=r"nobody got there.*Redis refuses"):
        await rebuild(stage, Load())


async def test_a_lock_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "REACH_LIMIT_S", -1.0)
    with pytest.raises(AssertionError, match=HELD):
        await rebuild(Stage(HELD, reached=False), Load())


async def test_what_a_writer_was_told_wrong_comes_first() -> None:
    with pytest.raises(Breach, match="lost"):
        await rebuild(Stage("layby: Redis refuses", reached=False), Load(Breach("lost")))
