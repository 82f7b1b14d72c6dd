"""The one table: what was proved, the figures, and the faults that were caught."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from proofs.catalogue import load
from proofs.proof import Size
from proofs.running import INTERRUPTED, Result

WIDTH = 118
_LEFT = 14


def render(results: Sequence[Result], seconds: float, size: Size) -> str:
    """The table; at its end what did not hold, and a line of summary."""
    lines = ["", f"{'proof':{_LEFT}}what it proves, its figures, and the faults it was seen to catch", "-" * WIDTH]
    for name in dict.fromkeys(result.proof for result in results):
        lines += _rows(name, [result for result in results if result.proof == name])
        lines.append("-" * WIDTH)
    return "\n".join([*lines, *_not_good(results), _summary(results, seconds, size)])


def _rows(name: str, results: list[Result]) -> list[str]:
    parts = list[str](_wrapped(load(name).promise))
    for result in results:
        if not result.mutation:
            verdict = "HELD" if result.good else result.outcome.upper()
            parts += _wrapped(f"{verdict} after {result.seconds:.0f} s")
            parts += _wrapped("; ".join(f"{key}: {value}" for key, value in result.figures.items()))
    broken = [result for result in results if result.mutation]
    caught = [result.mutation for result in broken if result.good]
    untried = [result.mutation for result in broken if result.outcome == INTERRUPTED]
    missed = [f"{one.mutation} ({one.outcome})" for one in broken if not one.good and one.outcome != INTERRUPTED]
    rest = f" (of {len(load(name).mutations)} faults)"
    parts += _wrapped(f"caught: {', '.join(caught)}{rest}") if caught else []
    parts += _wrapped(f"NOT CAUGHT: {', '.join(missed)}") if missed else []
    parts += _wrapped(f"interrupted: {', '.join(untried)}") if untried else []
    return _row(name, parts)


def _not_good(results: Sequence[Result]) -> list[str]:
    lines = list[str]()
    for one in results:
        if not one.good and one.outcome != INTERRUPTED:
            verdict = f"the fault {one.mutation} was not caught: {one.outcome}" if one.mutation else one.outcome.upper()
            lines += _row(one.proof, [verdict, *_wrapped(one.words)])
    return lines


def _row(name: str, parts: list[str]) -> list[str]:
    return [f"{name if not index else '':{_LEFT}}{part}" for index, part in enumerate(parts)]


def _wrapped(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH - _LEFT) or [""]]


def _summary(results: Sequence[Result], seconds: float, size: Size) -> str:
    proofs = [result for result in results if not result.mutation]
    broken = [result for result in results if result.mutation]
    parts = [f"{sum(one.good for one in proofs)} of {len(proofs)} proofs held"] if proofs else []
    parts += [f"{sum(one.good for one in broken)} of {len(broken)} broken builds caught"] if broken else []
    parts += ["interrupted"] if any(one.outcome == INTERRUPTED for one in results) else []
    seed = results[0].seed if results else 0
    return f"{'; '.join(parts)}; {seconds:.0f} s, size {size}, seed {seed}"
