"""Ending tasks, and one reading for many."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from eventstore.domain.errors import StoreUnavailable
from eventstore.support.tasks import SingleFlight, end, supervise

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Slow:
    """A reading that ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[int]] = []
        self.flight: SingleFlight[str, int] = SingleFlight()

    async def _ask(self) -> int:
        return await asyncio.shield(self.flight.join_next("", self._read))

    async def _read(self) -> int:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]

    async def ask(self, count: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self._ask()) for _ in range(count)]
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


async def test_callers_of_one_key_share_the_task_that_runs_and_those_of_another_do_not() -> None:
    begun, flight = list[str](), SingleFlight[str, str]()
    gate = asyncio.Event()

    async def read(key: str) -> str:
        begun.append(key)
        await gate.wait()
        return key

    tasks = [flight.join(key, lambda key=key: read(key)) for key in ("a", "b", "a")]
    gate.set()
    assert await asyncio.gather(*map(asyncio.shield, tasks)) == ["a", "b", "a"]
    assert begun == ["a", "b"]
    assert await flight.join("a", lambda: read("a")) == "a"
    assert begun == ["a", "b", "a"]  # a task that is over is not shared


class Failing:
    """Work that fails a few times, in different ways, and what became of it."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.recovered = 0
        self.refusals = list[Exception]()
        self.worked = asyncio.Event()

    async def work(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.worked.set()
        await asyncio.sleep(0)

    def recover(self) -> None:
        self.recovered += 1


async def test_background_work_goes_on_after_any_failure_and_ends_when_it_is_cancelled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.support.tasks.FAULT_PAUSE_S", 0.0)
    caplog.set_level(logging.INFO)
    failing = Failing(StoreUnavailable("the store is away"), ValueError("a fault"), StoreUnavailable("away again"))
    running = asyncio.create_task(
        supervise(
            failing.work,
            logging.getLogger("layby.test"),
            failed="it failed",
            put_off="it waits: %s",
            on_expected=failing.refusals.append,
            recover=failing.recover,
        )
    )
    async with asyncio.timeout(10):
        await failing.worked.wait()
    await end(running)
    assert running.cancelled()
    assert failing.recovered == 3
    assert [str(error) for error in failing.refusals] == ["the store is away", "away again"]
    said = [(record.levelname, record.message, record.exc_info is not None) for record in caplog.records]
    assert said == [
        ("INFO", "it waits: the store is away", False),
        ("ERROR", "it failed", True),
        ("INFO", "it waits: away again", False),
    ]
