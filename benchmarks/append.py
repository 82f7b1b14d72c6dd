"""How many events a second one server process takes, beside what the engine takes from a C client.

    python -m benchmarks.append [--seconds 4] [--rounds 3]

Single events: 64 connections, each with a session of its own and one request at a time. Batches: 8 connections,
100 events a request. Both durable: the engine syncs before it answers. The limit beside them is `redis-benchmark`
with pipelined XADD of the same bytes against the same engine. Rounds are interleaved; medians are reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import statistics
import subprocess
import time

from benchmarks.harness import Client, Server, running_server

EVENT = {"type": "message.appended", "data": {"text": "x" * 100, "index": 1, "role": "assistant"}}
SINGLE, BATCH = json.dumps(EVENT).encode(), json.dumps([EVENT] * 100).encode()


async def publish(server: Server, connections: int, body: bytes, events: int, seconds: float) -> float:
    """Events a second."""
    clients = [Client(server.port) for _ in range(connections)]
    created = await asyncio.gather(*(client.json("POST", "/v1/sessions", {}) for client in clients))
    stop, done = time.perf_counter() + seconds, 0

    async def write(client: Client, session_id: str) -> None:
        nonlocal done
        while time.perf_counter() < stop:
            status, answer = await client.request("POST", f"/v1/sessions/{session_id}/events", body)
            if status != 201:
                raise RuntimeError(f"{status} {answer[:300]!r}")
            done += events

    began = time.perf_counter()
    await asyncio.gather(*(write(c, s["session_id"]) for c, s in zip(clients, created, strict=True)))
    rate = done / (time.perf_counter() - began)
    for client in clients:
        client.close()
    return rate


def pipelined_xadd(server: Server, pipeline: int, count: int) -> float | None:
    """XADD a second by a C client, or None where there is none."""
    tool = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if tool is None:
        return None
    line = '{"seq":1,"type":"message.appended","time":"2026-11-29T12:00:00.123Z","by":"anonymous","data":' + (
        json.dumps(EVENT["data"], separators=(",", ":")) + "}"
    )
    address = re.sub(r"^unix://|\?.*$", "", server.engine)
    command = [tool, "-s", address, "-c", "64", "-P", str(pipeline), "-n", str(count), "-q"]
    entry = ["XADD", "bench:{x}:__rand_int__", "*", "e", line, "h", "0" * 64]
    output = subprocess.run([*command, "-r", "64", *entry], capture_output=True, text=True, timeout=120, check=True)
    return float(re.findall(r"([\d.]+) requests per second", output.stdout)[-1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    figures: dict[str, list[float]] = {"single": [], "batch": [], "xadd": []}
    with running_server() as server:
        for _ in range(chosen.rounds):
            figures["single"].append(asyncio.run(publish(server, 64, SINGLE, 1, chosen.seconds)))
            figures["batch"].append(asyncio.run(publish(server, 8, BATCH, 100, chosen.seconds)))
            if (rate := pipelined_xadd(server, 100, 200_000)) is not None:
                figures["xadd"].append(rate)
    report({name: statistics.median(rates) for name, rates in figures.items() if rates}, chosen.rounds)


def report(median: dict[str, float], rounds: int) -> None:
    limit = median.get("xadd")
    print(f"medians of {rounds} interleaved rounds; client, server and engine share the machine")
    for name, what in (("single", "single events, 64 connections"), ("batch", "batches of 100, 8 connections")):
        ratio = f"{median[name] / limit:6.3f} of pipelined XADD" if limit else ""
        print(f"{what:32} {median[name]:10,.0f} events/s  {ratio}")
    if limit:
        print(f"{'pipelined XADD, C client':32} {limit:10,.0f} entries/s")
    else:
        print("pipelined XADD: left out, no redis-benchmark on this machine (Debian: redis-tools)")


if __name__ == "__main__":
    main()
