"""One SVG for each benchmark: the sides of every question as bars, with the spread of their rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.benchmark import Run, Series
from benchmarks.table import amount

OURS, OTHERS = "#2563a8", "#b0b7c3"
_INCH_A_BAR = 0.32


def write(file: Path, name: str, run: Run) -> None:
    """Draw it; nothing where nothing was measured."""
    import matplotlib as mpl
    from matplotlib import pyplot

    questions = list(dict.fromkeys(what for what, _ in run.series))
    if not questions:
        return
    # Text stays text, and two runs with the same figures give the same file.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}
    heights = [sum(asked == what for asked, _ in run.series) + 1.2 for what in questions]
    figure, axes = pyplot.subplots(
        len(questions), 1, figsize=(9, _INCH_A_BAR * sum(heights) + 0.4), height_ratios=heights, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for what, place in zip(questions, axes[:, 0], strict=True):
        _bars(place, what, [series for (asked, _), series in run.series.items() if asked == what])
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def _bars(place: Any, what: str, sides: list[Series]) -> None:
    names, medians = [series.side for series in sides], [series.median for series in sides]
    spread = [[m - min(s.values) for m, s in zip(medians, sides, strict=True)],
              [max(s.values) - m for m, s in zip(medians, sides, strict=True)]]  # fmt: skip
    colours = [OURS if name.startswith("Layby") else OTHERS for name in names]
    bars = place.barh(names, medians, xerr=spread, color=colours, ecolor="#555", capsize=2)
    place.bar_label(bars, [f" {amount(median)} {side.unit}" for median, side in zip(medians, sides, strict=True)])
    place.invert_yaxis()
    place.set_title(what, loc="left", fontsize=9, fontweight="bold")
    place.spines[["top", "right", "bottom"]].set_visible(False)
    place.set_xticks([])
    place.margins(x=0.2)
