"""Does the work grow with the length of a session? The same requests at 100 events and at many, in one run.

python -m benchmarks.growth [--events 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from benchmarks.harness import Client, Server, median_ms, running_server

FILLER = {"type": "message.appended", "data": {"text": "x" * 100}}
TIMES = 60


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


async def measure(client: Client, session_id: str) -> dict[str, float]:
    base = f"/v1/sessions/{session_id}"

    async def append(_: int) -> None:
        await client.json("POST", base + "/events", FILLER)

    async def snapshot(_: int) -> None:
        await client.json("GET", base)

    async def append_and_snapshot(_: int) -> None:
        await client.json("POST", base + "/events", FILLER)
        await client.json("GET", base)

    async def tail_end(_: int) -> None:
        await client.request("GET", base + "/events?order=desc&limit=10")

    ask: dict[str, Any] = {"tool_name": "t", "tool_args": {}, "expires_in_ms": 600_000}
    asks = [{"type": "input.requested", "data": {**ask, "interrupt_id": f"call-{n}"}} for n in range(TIMES)]
    await client.json("POST", base + "/events", asks)

    async def decide(number: int) -> None:
        await client.json("POST", f"{base}/calls/call-{number}/decision", {"action": "approve"})

    decided = await median_ms(TIMES, decide)
    return {
        "append": await median_ms(TIMES, append),
        "decision": decided,
        "snapshot": await median_ms(TIMES, snapshot),
        "append, then snapshot": await median_ms(TIMES, append_and_snapshot),
        "newest 10 events": await median_ms(TIMES, tail_end),
    }


async def compare(server: Server, events: int) -> None:
    client = Client(server.port)
    short, long = await grown(client, 100), await grown(client, events)
    await asyncio.sleep(1)  # let the projector come to rest, for both alike
    few, many = await measure(client, short), await measure(client, long)
    again = await again_at(client)
    few = {name: (ms + again[name]) / 2 for name, ms in few.items()}
    print(json.dumps({"events": [100, events]}))
    for name, ms in few.items():
        print(f"{name:24} {ms:8.2f} ms at 100   {many[name]:8.2f} ms at {events:,}   ratio {many[name] / ms:5.2f}")
    client.close()


async def again_at(client: Client) -> dict[str, float]:
    """The short session once more, after the long one: what else changed meanwhile counts for both."""
    return await measure(client, await grown(client, 100))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--events", type=int, default=100_000)
    chosen = options.parse_args()
    with running_server() as server:
        asyncio.run(compare(server, chosen.events))


if __name__ == "__main__":
    main()
