"""Runs proofs as processes: side by side where that changes nothing, each with a limit of time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from proofs import builds, leftovers
from proofs.proof import Mutation, Proof, Size

_stopped = threading.Event()

INTERRUPTED = "interrupted"
SHOWN_EVERY_S = 2.0
"""How often the progress of one run is shown, at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """A proof to be run, on the tree as it is or with a fault in it."""

    proof: Proof
    size: Size
    seed: int
    mutation: Mutation | None = None

    @property
    def title(self) -> str:
        return f"{self.proof.name} with the fault {self.mutation.name}" if self.mutation else self.proof.name


@dataclass(frozen=True, slots=True)
class Result:
    """What came out."""

    proof: str
    mutation: str
    outcome: str
    """held, breach, not run, interrupted, or error; of a broken build `breach` is what is wanted."""
    words: str
    seconds: float
    seed: int
    figures: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def good(self) -> bool:
        return self.outcome == ("breach" if self.mutation else "held")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_all(jobs: Sequence[Job], *, at_once: int) -> list[Result]:
    """Those that measure time one after another, then the others side by side, then the broken builds. In the order of
    `jobs`."""
    shown = _Shown(len(jobs))
    alone = [job for job in jobs if job.proof.alone and not job.mutation]
    found = {id(job): _run(job, shown) for job in alone}
    beside = sorted((job for job in jobs if id(job) not in found), key=lambda job: job.mutation is not None)
    with ThreadPoolExecutor(at_once) as pool:
        found |= dict(zip(map(id, beside), pool.map(partial(_run, shown=shown), beside), strict=True))
    return [found[id(job)] for job in jobs]


def stop(*_: object) -> None:
    """Give up: what runs is ended, and nothing more begins. As a handler of signals."""
    _stopped.set()


class _Shown:
    """Lines of progress, from runs that go on at once."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._lock, self._began = total, 0, threading.Lock(), time.monotonic()

    def line(self, job: Job, text: str) -> None:
        with self._lock:
            print(f"  {time.monotonic() - self._began:6.1f} s  {job.title}: {text}", flush=True)

    def end(self, job: Job, result: Result) -> None:
        with self._lock:
            self._done += 1
            word = {"breach": "caught", "held": "NOT CAUGHT"}.get(result.outcome) if result.mutation else None
            word = word or ("held" if result.good else result.outcome.upper())
            print(f"[{self._done}/{self._total}] {job.title}: {word} ({result.seconds:.1f} s)", flush=True)
            if (not result.good or result.mutation) and result.outcome != INTERRUPTED:
                lines = result.words.strip().splitlines() or ["it said nothing"]
                shown = lines[:1] if result.good else lines
                print("".join(f"      {line[:300]}\n" for line in shown), end="", flush=True)


def _run(job: Job, shown: _Shown) -> Result:
    began, name = time.monotonic(), job.mutation.name if job.mutation else ""
    if _stopped.is_set():
        return Result(job.proof.name, name, INTERRUPTED, "", 0.0, job.seed)
    with tempfile.TemporaryDirectory(prefix=f"layby-{job.proof.name}-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        try:
            with _build(job, folder) as root:
                outcome, words, figures = _child(job, root, folder, shown)
        except LookupError as error:
            outcome, words, figures = "error", str(error), {}
    result = Result(job.proof.name, name, outcome, words, time.monotonic() - began, job.seed, figures)
    shown.end(job, result)
    return result


def _build(job: Job, folder: Path) -> contextlib.AbstractContextManager[Path]:
    return builds.patched(job.mutation.patches, folder) if job.mutation else contextlib.nullcontext(builds.ROOT)


def _child(job: Job, root: Path, folder: Path, shown: _Shown) -> tuple[str, str, dict[str, str]]:
    """Run it in a process of its own; nothing that it started outlives it, and all that it writes is in `folder`."""
    limit = job.proof.limit_s["quick" if job.mutation else job.size]
    began, result = time.monotonic(), folder / "result.json"
    own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder), leftovers.MARK: str(folder)}
    process = subprocess.Popen(
        _command(job, result),
        cwd=root,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    last = _follow(process, limit, lambda text: shown.line(job, text))
    process.kill()
    process.wait()
    leftovers.end(folder)
    if result.exists():
        told = json.loads(result.read_text())
        return told["outcome"], told["words"], told["figures"]
    if _stopped.is_set():
        return INTERRUPTED, "", {}
    if time.monotonic() - began >= limit:
        return "breach", f"not done in {limit:.0f} s", {}
    return "error", last, {}


def _command(job: Job, result: Path) -> list[str]:
    command = [sys.executable, "-m", "proofs", "--child", job.proof.name, "--size", job.size]
    command += ["--seed", str(job.seed), "--result", str(result)]
    return [*command, "--mutation", job.mutation.name] if job.mutation else command


def _follow(process: subprocess.Popen[str], limit_s: float, show: Callable[[str], None]) -> str:
    """Show what it says, until it ends or its time is up. Returns the end of what it said."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    said, shown_at, give_up = list[str](), 0.0, time.monotonic() + limit_s
    while (now := time.monotonic()) < give_up and not _stopped.is_set():
        try:
            line = lines.get(timeout=min(1.0, give_up - now))
        except queue.Empty:
            if process.poll() is not None:  # something it started holds on to its output
                break
            continue
        if line is None:
            break
        said = [*said[-40:], line]
        if now - shown_at >= SHOWN_EVERY_S:
            show(line.rstrip())
            shown_at = now
    return "".join(said)
