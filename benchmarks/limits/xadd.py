"""Pipelined XADD of the bytes that Layby stores, by a C client: what the engine takes where nobody decides anything."""

from __future__ import annotations

import re
import shutil
import subprocess

from benchmarks.benchmark import CannotRun
from benchmarks.stored import LINE


def pipelined(engine_url: str, *, pipeline: int = 100, count: int = 200_000) -> float:
    """Entries a second into 64 streams, from 64 connections. Raises `CannotRun` without a C client."""
    tool = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if tool is None:
        raise CannotRun("there is no redis-benchmark on this machine (Debian: redis-tools)")
    command = [tool, *_where(engine_url), "-c", "64", "-P", str(pipeline), "-n", str(count), "-q", "-r", "64"]
    entry = ["XADD", "bench:{x}:__rand_int__", "*", "e", LINE, "h", "0" * 64]
    output = subprocess.run([*command, *entry], capture_output=True, text=True, timeout=300, check=True).stdout
    return float(re.findall(r"([\d.]+) requests per second", output)[-1])


def _where(engine_url: str) -> list[str]:
    if engine_url.startswith("unix://"):
        return ["-s", re.sub(r"^unix://|\?.*$", "", engine_url)]
    host, _, port = engine_url.removeprefix("redis://").partition("/")[0].partition(":")
    return ["-h", host, "-p", port]
