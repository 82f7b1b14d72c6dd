"""What the benchmarks make of their figures: medians, ratios, verdicts, and the frames and answers they count."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import catalogue, charts, results
from benchmarks.benchmark import Benchmark, CannotRun, Goal, Run, Series, percentile
from benchmarks.load import get, post, whole
from benchmarks.table import amount, judgement, render
from tests.architecture.tree import first_cells, text


def a_run(**sides: list[float]) -> Run:
    """With one question, `speed`, and these sides."""
    run = Run("quick", Path())
    for side, values in sides.items():
        for value in values:
            run.add("speed", side, value, "events/s", "more")
    return run


def test_a_goal_is_judged_by_the_median_of_the_ratios_of_its_rounds() -> None:
    """Not by the ratio of the medians, 0.67 here, though Layby was twice as fast in two rounds of three."""
    run = a_run(Layby=[2, 20, 60], peer=[1, 40, 30])
    run.at_least("speed", "Layby", "peer", 2)
    assert run.goals[0].value == 2
    assert run.goals[0].reached


@pytest.mark.parametrize(("at_least", "reached"), [(True, False), (False, True)])
def test_a_goal_without_another_side_is_judged_in_its_unit(at_least: bool, reached: bool) -> None:
    goal = Goal("start", Series("Layby", "s", "less", [0.2, 0.9, 0.3]), None, 0.5, at_least)
    assert goal.value == 0.3
    assert goal.reached is reached


def test_a_goal_is_reached_at_its_limit() -> None:
    run = a_run(Layby=[3.0], peer=[1.0])
    run.at_least("speed", "Layby", "peer", 3)
    run.at_most("speed", "Layby", "peer", 3)
    assert [goal.reached for goal in run.goals] == [True, True]


def test_sides_that_missed_a_round_are_not_compared() -> None:
    goal = Goal("speed", Series("Layby", "", values=[1, 2]), Series("peer", "", values=[1]), 1, at_least=True)
    with pytest.raises(ValueError, match="zip"):
        _ = goal.value


def test_a_goal_beside_a_side_that_was_left_out_is_left_out() -> None:
    run = a_run(Layby=[1])
    run.leave_out("peer", "it is not installed")
    run.at_least("speed", "Layby", "peer", 2)
    assert run.goals == []


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_a_value_by_rank(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7.0


@pytest.mark.parametrize(
    ("heard", "size"),
    [
        (b"", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 40),
        (b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n{}HTTP/1.1", 39),
        (b"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n", 38),
        (b"HTTP/1.1 200 OK\r\nDate: now\r\n\r\nContent-Length: 9\r\n\r\n", 30),
    ],
)
def test_an_answer_is_whole_when_its_body_is_here(heard: bytes, size: int | None) -> None:
    assert whole(heard) == size


def test_a_request_ends_where_it_says() -> None:
    assert post("/p", b"{}", headers="A: b\r\n").endswith(b"Content-Length: 2\r\nA: b\r\n\r\n{}")
    assert get("/p", "A: b\r\n") == b"GET /p HTTP/1.1\r\nHost: localhost\r\nA: b\r\n\r\n"


def test_the_table_tells_medians_spreads_and_verdicts() -> None:
    run = a_run(Layby=[1_000, 3_000, 2_000], peer=[1_000, 1_000, 1_000])
    run.at_least("speed", "Layby", "peer", 1.5)
    run.at_least("speed", "Layby", "peer", 2.5)
    lines = render({"append": run}, 61.2).splitlines()
    assert "    Layby                                              2,000 events/s        1,000 to 3,000" in lines
    assert "    reached      Layby = 2.00 × peer (goal ≥ 1.5 ×)" in lines
    assert "    NOT REACHED  Layby = 2.00 × peer (goal ≥ 2.5 ×)" in lines
    assert lines[-1] == "1 of 2 goals reached; 61 s"


def test_the_table_tells_what_was_left_out_and_why() -> None:
    run = a_run(Layby=[1])
    run.leave_out("peer", "there is no node on this machine")
    run.note("The engine is synced always.")
    table = render({"append": run}, 1)
    assert "left out: peer: there is no node on this machine" in table
    assert "The engine is synced always." in table
    assert "0 of 0 goals reached" in table


def test_a_goal_in_a_unit_is_told_with_it() -> None:
    goal = Goal("parked", Series("a session", "bytes", "less", [4_321]), None, 5_000, at_least=False)
    assert judgement(goal) == "    reached      a session: 4,321 bytes (goal ≤ 5,000 bytes)"


@pytest.mark.parametrize(
    ("value", "told"), [(12_345.6, "12,346"), (99.94, "99.9"), (5.678, "5.68"), (0.01234, "0.0123"), (0, "0"), (7, "7")]
)
def test_an_amount_has_as_many_digits_as_mean_something(value: float, told: str) -> None:
    assert amount(value) == told


def test_what_is_kept_of_a_run_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "write", lambda *_: None)
    run = a_run(Layby=[1.23456, 2.0], peer=[1.0, 2.0])
    run.at_least("speed", "Layby", "peer", 2)
    results.write(tmp_path, Benchmark("append", "How fast?", lambda _: None), run)
    kept = json.loads((tmp_path / "append.json").read_text())
    assert kept["figures"][0]["values"] == [1.235, 2.0]
    assert kept["goals"][0] | {"value": 0} == {
        "what": "speed", "one": "Layby", "other": "peer", "value": 0, "goal": "at least 2", "reached": False,
    }  # fmt: skip
    assert kept["machine"]["cores"] >= 1


def test_a_benchmark_that_fails_keeps_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the run ends with 1; one that cannot run here is no failure."""

    async def fails(run: Run) -> None:
        run.add("speed", "Layby", 1, "events/s")
        await asyncio.sleep(0)
        raise OSError("the server is gone")

    def cannot(_: Run) -> None:
        raise CannotRun("it needs Linux")

    found = {"append": Benchmark("append", "", fails), "line": Benchmark("line", "", cannot)}
    monkeypatch.setattr(command, "load", found.__getitem__)
    monkeypatch.setattr(charts, "write", lambda *_: None)
    for name, code in (("append", 1), ("line", 0)):
        monkeypatch.setattr("sys.argv", ["benchmarks", name, "--results", str(tmp_path)])
        assert command.main() == code
    table = (tmp_path / "table.txt").read_text()
    assert "left out: all of it: it needs Linux" in table
    assert "the server is gone" in (tmp_path / "append.json").read_text()


def test_a_name_that_no_benchmark_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "there is no benchmark nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_each_benchmark_asks_something_and_is_in_the_readme(name: str) -> None:
    benchmark = catalogue.load(name)
    assert benchmark.name == name
    assert "?" in benchmark.asks
    assert f"{name}.py" in first_cells(text(Path("benchmarks/README.md")))


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_whatever_interrupts_a_run_leaves_nothing_behind(
    told: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = list[Path]()

    async def measure(run: Run) -> None:
        folders.append(run.folder)
        signal.raise_signal(told)
        await asyncio.sleep(10)

    monkeypatch.setattr(command, "load", {"hop": Benchmark("hop", "?", measure)}.__getitem__)
    monkeypatch.setattr("sys.argv", ["benchmarks", "hop", "--results", str(tmp_path)])
    assert command.main() == 130
    assert [folder.exists() for folder in folders] == [False]
