"""One run of one proof, in a process and a tree of its own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import traceback
from collections.abc import Awaitable
from pathlib import Path

from proofs import leftovers
from proofs.catalogue import load
from proofs.proof import Breach, CannotRun, Mutation, Proof, Run, Size


def main(name: str, size: Size, seed: int, mutation: str, result: Path) -> int:
    """Run it here, beside `result`, where what came out is written."""
    proof, folder = load(name), result.parent / "run"
    folder.mkdir()
    run = Run(name, size, folder, seed, _mutation(proof, mutation), tell=lambda text: print(text, flush=True))
    of_the_run = os.environ.get(leftovers.MARK)
    with leftovers.ending_with_parent(Path(of_the_run)) if of_the_run else contextlib.nullcontext():
        outcome, words = _outcome(proof, run)
    if outcome in ("breach", "error"):
        words += _failures(folder)
    result.write_text(json.dumps({"outcome": outcome, "words": words, "figures": run.figures}))
    return 0


def _mutation(proof: Proof, name: str) -> Mutation | None:
    return next(one for one in proof.mutations if one.name == name) if name else None


def _outcome(proof: Proof, run: Run) -> tuple[str, str]:
    try:
        awaited = proof.run(run)
        if inspect.isawaitable(awaited):
            asyncio.run(_wait(awaited))
    except BaseException as error:
        found = _first(error, Breach) or _first(error, CannotRun)
        if isinstance(found, Breach):
            return "breach", str(found)
        if isinstance(found, CannotRun):
            return "not run", str(found)
        return "error", "".join(traceback.format_exception(error))[-4000:]
    return "held", ""


def _failures(folder: Path) -> str:
    """What the servers of the run logged as their own fault."""
    for log in sorted(folder.rglob("server.log")):
        text = log.read_text(errors="replace")
        if (found := text.find("Traceback (most recent call last)")) >= 0:
            begin = text.rfind("\n", 0, max(0, found - 1)) + 1
            return f"\n{log.relative_to(folder)}:\n{text[begin : begin + 6_000]}"
    return ""


async def _wait(awaited: Awaitable[None]) -> None:
    await awaited


def _first(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """An error of this kind, itself or within a group (a task group wraps what its tasks raise)."""
    if isinstance(error, kind):
        return error
    within: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # `isinstance` does not tell of what it is one
    return next((found for one in within if (found := _first(one, kind))), None)
