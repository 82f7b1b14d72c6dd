"""A server outlives its engine: SCRIPT FLUSH, a restart, and a long outage, with requests all the while.

    python -m proofs.outage [--seconds 60]

The engine is a Valkey of its own on loopback, named with --redis-url. While it is away every request must be
answered, with 503 and Retry-After; when it is back, the same server process must go on, with every acknowledged event.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from benchmarks.harness import Client, free_port, launch
from eventstore.engine.process import find_binary


class Engine:
    """A Valkey on a loopback port, with an append-only file that is synced always."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder
        folder.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "appendonly": "yes", "save": ""}
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        command = [str(find_binary()), *arguments, "--appendfsync", "always"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = redis.Redis.from_url(self.url)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
                if client.ping():
                    return
            time.sleep(0.02)
        raise RuntimeError("the engine did not start")

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


async def append(client: Client, number: int) -> tuple[int, bytes, float]:
    """One try: status, answer, and how long it took."""
    began = time.monotonic()
    key = f"Idempotency-Key: event-{number}\r\n"
    status, answer = await client.request("POST", "/v1/sessions/outage/events", b'{"type":"outage.event"}', key)
    return status, answer, time.monotonic() - began


async def until_appended(client: Client, number: int, limit_s: float) -> float:
    """Repeat until it is acknowledged; how long that took."""
    began = time.monotonic()
    while (await append(client, number))[0] != 201:
        assert time.monotonic() - began < limit_s, "the server did not recover"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def prove(engine: Engine, port: int, seconds: float) -> None:
    client = Client(port)
    status, _ = await client.request("POST", "/v1/sessions", b'{"session_id":"outage"}')
    assert status == 201
    await until_appended(client, 1, 5)
    redis.Redis.from_url(engine.url).script_flush()
    await until_appended(client, 2, 5)
    print("SCRIPT FLUSH: the next append succeeded")
    engine.kill()
    engine.start()
    print(f"engine killed and restarted: appended again after {await until_appended(client, 3, 10):.2f} s")
    engine.kill()
    refused, slowest, stop = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < stop:
        status, answer, took = await append(client, 4)
        assert status == 503 and b"store-unavailable" in answer, (status, answer[:200])
        refused, slowest = refused + 1, max(slowest, took)
        await asyncio.sleep(0.2)
    engine.start()
    back = await until_appended(client, 4, 20)
    print(f"outage of {seconds:.0f} s: {refused} requests, each 503, the slowest after {slowest:.2f} s")
    print(f"engine back: appended again after {back:.2f} s, by the same server process")
    events = (await client.json("GET", "/v1/sessions/outage"))["seq"]
    assert events == 5, f"{events} events, of 5 acknowledged"
    print("5 events acknowledged, 5 stored, none twice")
    client.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0)
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="layby-outage-"))
    engine, server = Engine(folder / "engine"), None
    try:
        engine.start()
        os.environ["LAYBY_REDIS_URL"] = engine.url
        server = launch(folder / "data", free_port())
        asyncio.run(prove(engine, server.port, chosen.seconds))
    finally:
        if server:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
        engine.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
