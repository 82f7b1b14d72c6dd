"""Does the work grow with the length of a session? The same requests at 100 events and at many, in one run.

python -m benchmarks.growth [--events 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from typing import Any

from benchmarks.harness import Client, Server, median_ms, running_server

FILLER = {"type": "message.appended", "data": {"text": "x" * 100}}
TIMES, ROUNDS = 40, 5


async def grown(client: Client, events: int) -> str:
    """A session with about so many events, a few of them turns."""
    session_id = (await client.json("POST", "/v1/sessions", {}))["session_id"]
    turn = [{"type": "turn.started"}, {"type": "turn.completed"}]
    written = 1
    while written < events:
        size = min(995, events - written)
        batch = [*turn, *[FILLER] * max(1, size - 5)]
        written = (await client.json("POST", f"/v1/sessions/{session_id}/events", batch))["last_seq"]
    return session_id


async def at_rest(client: Client) -> None:
    """Wait until the read models have taken everything in, for both sessions alike."""
    while any((await client.json("GET", "/readyz"))["projectors"].values()):
        await asyncio.sleep(0.1)


async def measure(client: Client, session_id: str, number: int) -> dict[str, float]:
    """Median times of one round, in milliseconds."""
    base = f"/v1/sessions/{session_id}"

    async def append(_: int) -> None:
        await client.json("POST", base + "/events", FILLER)

    async def snapshot(_: int) -> None:
        await client.json("GET", base)

    async def newest(_: int) -> None:
        await client.request("GET", base + "/events?order=desc&limit=10")

    ask: dict[str, Any] = {"tool_name": "t", "tool_args": {}, "expires_in_ms": 600_000}
    asks = [{"type": "input.requested", "data": {**ask, "interrupt_id": f"{number}-{n}"}} for n in range(TIMES)]
    await client.json("POST", base + "/events", asks)

    async def decide(call: int) -> None:
        await client.json("POST", f"{base}/calls/{number}-{call}/decision", {"action": "approve"})

    return {
        "decision": await median_ms(TIMES, decide),
        "append": await median_ms(TIMES, append),
        "snapshot": await median_ms(TIMES, snapshot),
        "newest 10 events": await median_ms(TIMES, newest),
    }


async def compare(server: Server, events: int) -> None:
    client = Client(server.port)
    sessions = {size: await grown(client, size) for size in (100, events)}
    rounds: dict[int, list[dict[str, float]]] = {size: [] for size in sessions}
    for number in range(ROUNDS):
        for size, session_id in sessions.items():
            await at_rest(client)
            rounds[size].append(await measure(client, session_id, number))
    for what in rounds[100][0]:
        few, many = (statistics.median(one[what] for one in rounds[size]) for size in (100, events))
        print(f"{what:18} {few:8.2f} ms at 100 events {many:8.2f} ms at {events:,}   ratio {many / few:5.2f}")
    client.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--events", type=int, default=100_000)
    chosen = options.parse_args()
    with running_server() as server:
        asyncio.run(compare(server, chosen.events))


if __name__ == "__main__":
    main()
