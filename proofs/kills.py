"""Nothing acknowledged is lost: SIGKILL of server, engine, or both, again and again, under writers that retry.

    python -m proofs.kills [--kills 10] [--writers 8] [--seconds 1.5]

Each writer appends numbered events to a session of its own, one at a time, and repeats each with the same
Idempotency-Key until it is acknowledged. After every kill: each acknowledged event stands once, at the seq that was
answered; no event stands twice; offsets are dense; `layby verify` finds every chain intact.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Client, Server, free_port, launch

VICTIMS = ("server and engine", "engine", "server")


@dataclass
class Writer:
    """One publisher, and what it was told."""

    number: int
    acknowledged: dict[int, int] = field(default_factory=dict[int, int])
    next: int = 0

    @property
    def session_id(self) -> str:
        return f"kill-{self.number}"

    async def run(self, port: int, stop: asyncio.Event) -> None:
        client = Client(port)
        while not stop.is_set():
            try:
                await self._write_one(client)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                client.close()
                client = Client(port)
                await asyncio.sleep(0.02)
        client.close()

    async def _write_one(self, client: Client) -> None:
        create = json.dumps({"session_id": self.session_id}).encode()
        if not self.next:
            await client.request("POST", "/v1/sessions", create, "Idempotency-Key: create\r\n")
            self.next = 1
        body = json.dumps({"type": "kill.event", "data": {"n": self.next}}).encode()
        key = f"Idempotency-Key: event-{self.next}\r\n"
        status, answer = await client.request("POST", f"/v1/sessions/{self.session_id}/events", body, key)
        if status == 201:
            self.acknowledged[self.next] = json.loads(answer)["first_seq"]
            self.next += 1
        elif status == 404:
            self.next = 0
        elif status not in (409, 503):
            raise AssertionError(f"{status} {answer[:300]!r}")


def kill(server: Server, victim: str) -> None:
    engine = int((server.data_dir / "engine.lock").read_text().split()[0])
    with contextlib.suppress(ProcessLookupError):
        if victim == "engine":
            os.kill(engine, signal.SIGKILL)
        elif victim == "server":
            os.kill(server.process.pid, signal.SIGKILL)
        else:
            os.killpg(server.process.pid, signal.SIGKILL)
    if victim != "engine":
        server.process.wait()


async def check(server: Server, writers: list[Writer]) -> int:
    """The number of events that were compared."""
    client, compared = Client(server.port), 0
    for writer in writers:
        found = dict[int, int]()
        start: int | None = 1
        while start is not None:
            path = f"/v1/sessions/{writer.session_id}/events?from={start}&limit=10000"
            status, answer = await client.request("GET", path, b"", "Accept: application/json\r\n")
            assert status == 200, (status, answer[:300])
            page = json.loads(answer)
            assert [e["seq"] for e in page["events"]] == list(range(start, start + len(page["events"]))), "a gap"
            for event in page["events"]:
                if event["type"] == "kill.event":
                    assert event["data"]["n"] not in found, f"event {event['data']['n']} stands twice"
                    found[event["data"]["n"]] = event["seq"]
            start = page["next_from"]
        assert list(found) == sorted(found), "out of order"
        for number, seq in writer.acknowledged.items():
            assert found.get(number) == seq, f"event {number} was acknowledged at {seq}, found at {found.get(number)}"
        compared += len(writer.acknowledged)
    client.close()
    return compared


def verify(server: Server) -> str:
    layby = Path(sys.executable).with_name("layby")
    done = subprocess.run(
        [str(layby), "verify", "--data-dir", str(server.data_dir)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]


async def prove(kills: int, count: int, seconds: float, folder: Path) -> None:
    server, writers = launch(folder / "data", free_port()), [Writer(number) for number in range(count)]
    try:
        for number in range(kills):
            stop, victim = asyncio.Event(), VICTIMS[number % len(VICTIMS)]
            tasks = [asyncio.create_task(writer.run(server.port, stop)) for writer in writers]
            await asyncio.sleep(seconds)
            kill(server, victim)
            began = time.monotonic()
            if victim == "engine":
                before = sum(len(writer.acknowledged) for writer in writers)
                while sum(len(writer.acknowledged) for writer in writers) == before:
                    assert time.monotonic() - began < 20, "the server did not recover"
                    await asyncio.sleep(0.01)
            else:
                server = await asyncio.to_thread(launch, server.data_dir, server.port)
            took = time.monotonic() - began
            stop.set()
            await asyncio.gather(*tasks)
            compared = await check(server, writers)
            intact = await asyncio.to_thread(verify, server)
            print(
                f"kill {number + 1:2}, {victim:17}: back in {took:4.2f} s; {compared:6,} acknowledged, 0 lost; {intact}"
            )
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=10)
    options.add_argument("--writers", type=int, default=8)
    options.add_argument("--seconds", type=float, default=1.5)
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="layby-kills-"))
    try:
        asyncio.run(prove(chosen.kills, chosen.writers, chosen.seconds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
