"""How long until a server with its own engine is ready, empty or with very many events? And until `--help` is done?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.benchmark import Benchmark, Run
from benchmarks.sides import layby, sessions
from proofs.servers import ROOT, Server

READY, HELP, UNIT = "from exec to ready", "from exec to exit", "s"
EMPTY, COMMAND, PYTHON = "Layby, empty", "Layby, --help", "python -c pass"


async def measure(run: Run) -> None:
    _compile()
    count, events = run.pick(quick=500, full=10_000), 100
    full = f"Layby, {count * events:,} events"
    with layby(run.folder / "full") as server:
        await sessions(server, count, events)
    for number in range(run.pick(quick=5, full=9)):
        run.tell(f"round {number + 1}")
        run.add(READY, EMPTY, _ready(Server(run.folder / f"empty-{number}")), UNIT, "less")
        run.add(READY, full, _ready(server), UNIT, "less")
        run.add(HELP, COMMAND, _ended([str(Path(sys.executable).with_name("layby")), "--help"]), UNIT, "less")
        run.add(HELP, PYTHON, _ended([sys.executable, "-c", "pass"]), UNIT, "less")
    run.note(f"The large store holds {count:,} sessions of {events} events. Ready is asked for every 20 ms.")
    run.note("All that is imported has been compiled, as `pip install` and `make` leave it.")
    run.at_most(READY, EMPTY, "", 1)
    run.at_most(HELP, COMMAND, "", 0.3)


def _compile() -> None:
    """As `pip install` and `make` leave it. Else each start would compile all that it imports, where Python is told to
    write down nothing of that."""
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", "import api.server.lifecycle, cli.main, cli.serve"], cwd=ROOT, env=writing, check=True
    )


def _ready(server: Server) -> float:
    began = time.perf_counter()
    try:
        server.start()
        return time.perf_counter() - began
    finally:
        server.end()


def _ended(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - began


BENCHMARK = Benchmark("startup", __doc__ or "", measure)
