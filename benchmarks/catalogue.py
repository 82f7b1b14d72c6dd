"""Every benchmark, in the order in which they run."""

from __future__ import annotations

import importlib

from benchmarks.benchmark import Benchmark

NAMES = ("append", "line", "history", "fanout", "hop", "decision", "growth", "reads", "memory", "startup")


def load(name: str) -> Benchmark:
    """The benchmark of this name; its module is read now."""
    found: Benchmark = importlib.import_module(f"benchmarks.{name}").BENCHMARK
    return found
