"""Measure Layby beside what limits it and beside its peers.

    python -m benchmarks [NAME…] [--size quick|full] [--results FOLDER]

Runs every benchmark, or those that are named, one after another. Prints one table of medians and ratios, and writes it
to the folder, with the figures and a chart of each. Exits 1 where a benchmark could not be run to its end; a goal that
is not reached is told in the table and is no failure, since machines are too noisy to fail anything by. Exits 130 where
it is interrupted, and leaves no server behind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from types import FrameType

import uvloop

from benchmarks import results
from benchmarks.benchmark import Benchmark, CannotRun, Run
from benchmarks.catalogue import NAMES, load
from benchmarks.table import render

RESULTS = Path(__file__).with_name("results")


def main() -> int:
    chosen = _options()
    try:
        with _interruptible():
            return _run(chosen)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 128 + signal.SIGINT


@contextlib.contextmanager
def _interruptible() -> Generator[None]:
    """SIGTERM, as `timeout` sends it, would end Python where it stands, and the servers would go on; in the background
    of a shell SIGINT is ignored."""

    def as_ctrl_c(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, as_ctrl_c)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def _run(chosen: argparse.Namespace) -> int:
    began, found, failed = time.monotonic(), dict[str, Run](), False
    for name in chosen.names or NAMES:
        benchmark, tell = load(name), _teller(name, began)
        tell(benchmark.asks)
        with tempfile.TemporaryDirectory(prefix="layby-bench-") as folder:
            found[name] = Run(chosen.size, Path(folder), tell)
            failed |= not _measured(benchmark, found[name])
        results.write(Path(chosen.results), benchmark, found[name])
    table = render(found, time.monotonic() - began)
    print(table)
    results.write_table(Path(chosen.results), table)
    return 1 if failed else 0


def _teller(name: str, began: float) -> Callable[[str], None]:
    return lambda text: print(f"{time.monotonic() - began:8.1f} s  {name}: {text}", flush=True)


def _measured(benchmark: Benchmark, run: Run) -> bool:
    """Run it to its end, or as far as this machine can. What it had found before it failed stays."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if (awaited := benchmark.run(run)) is not None:
                runner.run(_wait(awaited))
    except CannotRun as reason:
        run.leave_out("all of it", str(reason))
    except Exception as error:  # the others can still be run
        traceback.print_exc()
        run.leave_out("the rest", f"{type(error).__name__}: {error}")
        return False
    return True


async def _wait(awaited: Awaitable[None]) -> None:
    await awaited


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    options.add_argument("--size", choices=("quick", "full"), default="quick")
    options.add_argument("--results", default=str(RESULTS), metavar="FOLDER", help="default: benchmarks/results")
    chosen = options.parse_args(arguments)
    try:
        Path(chosen.results).mkdir(parents=True, exist_ok=True)
    except OSError as error:  # before anything is measured
        options.error(f"--results {chosen.results}: {error.strerror}")
    if unknown := sorted(set(chosen.names) - set(NAMES)):
        options.error(f"there is no benchmark {unknown[0]}; there are {', '.join(NAMES)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
