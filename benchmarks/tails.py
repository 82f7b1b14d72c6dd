"""What idle tails cost: connections to the engine, and memory of the server.

python -m benchmarks.tails [--tails 2000] [--sessions 200]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from pathlib import Path

import redis

from benchmarks.harness import Client, Server, running_server


def memory_kb(pid: int) -> int:
    """Resident memory of a process (Linux)."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0])


def connections(server: Server) -> int:
    client = redis.Redis.from_url(server.engine)
    try:
        return len(client.client_list()) - 1
    finally:
        client.close()


async def open_tail(server: Server, session_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    path = f"/v1/sessions/{session_id}/stream"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    await reader.readuntil(b"session.started")
    return reader, writer


async def run(server: Server, tails: int, sessions: int) -> None:
    client = Client(server.port)
    ids = [(await client.json("POST", "/v1/sessions", {}))["session_id"] for _ in range(sessions)]
    for session_id in ids:
        await client.json("GET", f"/v1/sessions/{session_id}")
    await asyncio.sleep(1)
    before, memory = connections(server), memory_kb(server.process.pid)
    opened = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
    for start in range(0, tails, 100):
        some = (open_tail(server, ids[n % sessions]) for n in range(start, min(start + 100, tails)))
        opened += await asyncio.gather(*some)
    await asyncio.sleep(2)
    after, grown = connections(server), memory_kb(server.process.pid)
    print(f"{tails:,} idle tails on {sessions} sessions")
    print(f"engine connections: {before} before, {after} with the tails")
    print(f"server memory: {memory / 1024:.1f} MB before, {grown / 1024:.1f} MB with them")
    print(f"memory of a tail: {(grown - memory) / tails:.1f} kB")
    began = time.perf_counter()
    await client.json("POST", f"/v1/sessions/{ids[0]}/events", {"type": "a.wake"})
    await asyncio.gather(*(reader.readuntil(b"a.wake") for reader, _ in opened[::sessions]))
    waited = (time.perf_counter() - began) * 1000
    print(f"one event to the {len(opened[::sessions])} tails of its session: {waited:.1f} ms, request included")
    for _, writer in opened:
        writer.close()
    client.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tails", type=int, default=2_000)
    options.add_argument("--sessions", type=int, default=200)
    chosen = options.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * chosen.tails)), hard))
    with running_server() as server:
        asyncio.run(run(server, chosen.tails, chosen.sessions))


if __name__ == "__main__":
    main()
