"""One SVG for each benchmark: the sides of every question as bars, with the spread of their rounds and the goals."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Goal, Run, Series
from benchmarks.table import amount

OURS, OTHERS, SPREAD = "#4a86c8", "#b0b7c3", "#333333"
_INCH_A_BAR, _INCH_ABOVE = 0.3, 0.7
GOAL = "#c0392b"
LEGEND = "bars: medians; thin lines: from the least to the most of the rounds; red: a goal, by the other side's median"
_BETTER = {"more": "  more is better", "less": "  less is better", "": ""}


def write(file: Path, name: str, run: Run, told: str = "") -> None:
    """Draw it, under its name and what is `told` of the run. Nothing where nothing was measured, or where matplotlib is
    not installed (the extra `bench`)."""
    questions = list(dict.fromkeys(what for what, _ in run.series))
    if not questions or importlib.util.find_spec("matplotlib") is None:
        return
    # By name, and of no type: what tests and checks the rest does without it.
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    pyplot.switch_backend("svg")
    # Text stays text, and two runs with the same figures give the same file.
    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}
    sides = [[series for (asked, _), series in run.series.items() if asked == what] for what in questions]
    heights = [len(each) + 1.4 for each in sides]
    figure, axes = pyplot.subplots(
        len(questions), 1, figsize=(9.5, _INCH_ABOVE + _INCH_A_BAR * sum(heights)), squeeze=False,
        height_ratios=heights, layout="constrained",
    )  # fmt: skip
    figure.suptitle(f"{name}{told and ': '}{told}\n{LEGEND}", fontsize=7.5, color=SPREAD)
    for what, place, each in zip(questions, axes[:, 0], sides, strict=True):
        _bars(place, what, each)
        for goal in run.goals:
            if goal.what == what:
                _goal(place, goal, [series.side for series in each].index(goal.one.side))
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def _bars(place: Any, what: str, sides: list[Series]) -> None:
    names, medians = [series.side for series in sides], [series.median for series in sides]
    least, most = [min(series.values) for series in sides], [max(series.values) for series in sides]
    colours = [OURS if name.startswith("Layby") else OTHERS for name in names]
    place.barh(names, medians, color=colours, height=0.72)
    place.hlines(range(len(sides)), least, most, color=SPREAD, linewidth=1)
    for row, series in enumerate(sides):
        place.annotate(
            f"{amount(series.median)} {series.unit}", (1, row), (-2, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", ha="right",
        )  # fmt: skip
    place.set_ylim(len(sides) - 0.5, -0.5)  # the first on top, and every bar as thick
    place.set_title(what, loc="left", fontsize=9, fontweight="bold")
    place.set_title(_BETTER[sides[0].better], loc="right", fontsize=8, color=SPREAD)
    place.spines[["top", "right", "bottom"]].set_visible(False)
    place.set_xlim(0, 1.35 * max(most) or 1)
    place.set_xticks([])
    place.tick_params(axis="y", length=0, pad=6)


def _goal(place: Any, goal: Goal, row: int) -> None:
    """Where the bar of this row should reach, or end."""
    at = goal.limit * (goal.other.median if goal.other else 1)
    if at <= place.get_xlim()[1]:
        place.vlines(at, row - 0.45, row + 0.45, color=GOAL, linewidth=1.5)
