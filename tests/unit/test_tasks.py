"""Ending tasks, and one reading for many."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from eventstore.support.tasks import Shared, end

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Slow:
    """A reading that ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[int]] = []
        self.shared: Shared[int] = Shared(self._read)

    async def _read(self) -> int:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]

    async def ask(self, count: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.shared.get()) for _ in range(count)]
        await self.settle()
        return tasks

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_all_who_ask_meanwhile_share_the_next_reading_and_never_an_older_one() -> None:
    slow = Slow()
    first, later = await slow.ask(3), await slow.ask(5)
    assert len(slow.begun) == 1
    slow.begun[0].set_result(1)
    await slow.settle()
    assert [task.result() for task in first] == [1] * 3
    assert not any(task.done() for task in later)
    slow.begun[1].set_result(2)
    assert await asyncio.gather(*later) == [2] * 5
    assert len(slow.begun) == 2


async def test_an_error_is_told_to_all_and_the_next_reading_is_another_one() -> None:
    slow = Slow()
    first, later = await slow.ask(2), await slow.ask(2)
    slow.begun[0].set_exception(RuntimeError("away"))
    told = await asyncio.gather(*first, return_exceptions=True)
    assert [type(error) for error in told] == [RuntimeError] * 2
    await slow.settle()
    slow.begun[1].set_result(2)
    assert await asyncio.gather(*later) == [2] * 2


async def test_whoever_goes_away_takes_the_answer_from_nobody() -> None:
    slow = Slow()
    gone, stays = await slow.ask(2)
    gone.cancel()
    await slow.settle()
    slow.begun[0].set_result(1)
    assert await stays == 1


async def test_tasks_are_ended_also_where_the_one_who_ends_them_is_cancelled() -> None:
    async def stubborn() -> None:
        for _ in range(3):  # some cancellations get lost on the way
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    work = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(work))
    await asyncio.sleep(0.01)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ending, 10)
    assert work.done()
