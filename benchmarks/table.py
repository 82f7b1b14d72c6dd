"""The one table: medians, ratios, and how they stand to the goals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.benchmark import Goal, Run, Series

WIDTH = 110
_SIDE, _VALUE, _UNIT, _VERDICT = 44, 12, 16, 13


def render(found: Mapping[str, Run], seconds: float) -> str:
    """What each benchmark found, what it left out, and a line of summary."""
    lines = list[str]()
    for name, run in found.items():
        lines += ["", name, "-" * WIDTH, *_figures(run), *_told(run)]
    goals = [goal for run in found.values() for goal in run.goals]
    reached = sum(goal.reached for goal in goals)
    return "\n".join([*lines, "", f"{reached} of {len(goals)} goals reached; {seconds:.0f} s"])


def _figures(run: Run) -> Iterator[str]:
    """Each question: its sides, and the goals below them."""
    for what in dict.fromkeys(what for what, _ in run.series):
        yield what
        yield from (figure(series) for (asked, _), series in run.series.items() if asked == what)
        yield from (judgement(goal) for goal in run.goals if goal.what == what)


def figure(series: Series) -> str:
    """The median of a side; where there were several rounds, the least and the most."""
    line = f"    {series.side:{_SIDE}}{amount(series.median):>{_VALUE}} {series.unit:{_UNIT}}"
    if len(series.values) < 2:
        return line.rstrip()
    return f"{line}{amount(min(series.values))} to {amount(max(series.values))}"


def judgement(goal: Goal) -> str:
    """A goal, and how near to it."""
    sign, verdict = ("≥" if goal.at_least else "≤"), ("reached" if goal.reached else "NOT REACHED")
    if goal.other is None:
        told, limit = f"{goal.one.side}: {amount(goal.value)} {goal.one.unit}", f"{goal.limit:,g} {goal.one.unit}"
    else:
        told, limit = f"{goal.one.side} = {goal.value:.2f} × {goal.other.side}", f"{goal.limit:g} ×"
    return f"    {verdict:{_VERDICT}}{told} (goal {sign} {limit})"


def amount(value: float) -> str:
    """As many digits as mean something."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _told(run: Run) -> Iterable[str]:
    texts = [*run.notes, *(f"left out: {side}: {reason}" for side, reason in run.left_out.items())]
    return [line for text in texts for line in textwrap.wrap(text, WIDTH, subsequent_indent="    ")]
