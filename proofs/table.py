"""The one table: what was proved, the figures, and the faults that were caught."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from proofs.catalogue import load
from proofs.proof import Size
from proofs.running import Result

WIDTH = 118
_LEFT = 14


def render(results: Sequence[Result], seconds: float, size: Size) -> str:
    """The table, with a line of summary at its end."""
    lines = ["", f"{'proof':{_LEFT}}what it proves, its figures, and the faults it was seen to catch", "-" * WIDTH]
    for name in dict.fromkeys(result.proof for result in results):
        lines += _rows(name, [result for result in results if result.proof == name])
        lines.append("-" * WIDTH)
    return "\n".join([*lines, _summary(results, seconds, size)])


def _rows(name: str, results: list[Result]) -> list[str]:
    parts = list[str](_wrapped(load(name).promise))
    for result in results:
        if not result.mutation:
            verdict = "HELD" if result.good else result.outcome.upper()
            figures = "; ".join(f"{key} {value}" for key, value in result.figures.items())
            parts += _wrapped(f"{verdict} in {result.seconds:.0f} s{': ' if figures else ''}{figures}")
            parts += [] if result.good else _wrapped(result.words)
    caught = [result.mutation for result in results if result.mutation and result.good]
    missed = [f"{result.mutation} ({result.outcome})" for result in results if result.mutation and not result.good]
    known = len(load(name).mutations)
    rest = "" if len(caught) + len(missed) >= known else f" (of {known}; size full tries all)"
    parts += _wrapped(f"caught: {', '.join(caught)}{rest}") if caught else []
    parts += _wrapped(f"NOT CAUGHT: {', '.join(missed)}") if missed else []
    return [f"{name if not index else '':{_LEFT}}{part}" for index, part in enumerate(parts)]


def _wrapped(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH - _LEFT) or [""]]


def _summary(results: Sequence[Result], seconds: float, size: Size) -> str:
    proofs = [result for result in results if not result.mutation]
    broken = [result for result in results if result.mutation]
    held, caught = sum(one.good for one in proofs), sum(one.good for one in broken)
    seed = results[0].seed if results else 0
    return (
        f"{held} of {len(proofs)} proofs held; {caught} of {len(broken)} broken builds caught;"
        f" {seconds:.0f} s, size {size}, seed {seed}"
    )
