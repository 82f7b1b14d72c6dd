"""How many single events a second does one WebSocket line take, beside single requests? And the server's memory?"""

from __future__ import annotations

import json

from benchmarks import websocket
from benchmarks.benchmark import Benchmark, Run
from benchmarks.load import closed_loop, post
from benchmarks.processes import Busy, at_most_kb, resident_kb
from benchmarks.sides import EVENT, SINGLE, layby, sessions
from proofs.servers import Server

SINGLES, MEMORY = "single events", "memory of the server"
LINE, ONE, MANY = "Layby line, 64 unanswered", "Layby HTTP, 64 connections", "Layby HTTP, each its own session"
BEFORE, DURING, AFTER = "Layby, before", "Layby, with a full line", "Layby, after"
FLOODED = "Layby, with a line that reads no answer"
UNIT = "events/s"
CONNECTIONS = UNANSWERED = 64
MESSAGE = json.dumps({"id": "1", "events": [EVENT]}).encode()
LARGE = json.dumps({"id": "1", "events": [{"type": "a.large", "data": {"text": "x" * 10_000}}]}).encode()


async def measure(run: Run) -> None:
    with layby(run.folder) as server:
        await _published(server, 0.5)  # what a server takes once is in `before`
        memory = {BEFORE: resident_kb(server.pid)}
        busy = Busy(server=server.pid, engine=server.engine_pid)
        for number in range(run.pick(quick=3, full=7)):
            run.tell(f"round {number + 1}")
            seconds = run.pick(quick=2.0, full=4.0)
            rate, most = await at_most_kb(server.pid, _published(server, seconds))
            memory[DURING] = max(most, memory.get(DURING, 0))
            run.add(SINGLES, LINE, rate, UNIT, "more")
            run.tell(f"busy with a line: {busy}")
            run.add(SINGLES, ONE, await _posted(server, 1, seconds), UNIT, "more")
            run.add(SINGLES, MANY, await _posted(server, CONNECTIONS, seconds), UNIT, "more")
            busy.look()
        memory[AFTER] = resident_kb(server.pid)
        taken, memory[FLOODED] = await at_most_kb(server.pid, _flooded(server, run.pick(quick=2.0, full=10.0)))
        run.note(f"A line whose client reads no answer was held up after {taken:,} messages of 10 kB, about.")
    for side in (BEFORE, DURING, AFTER, FLOODED):
        run.add(MEMORY, side, memory[side] / 1024, "MB", "less")
    run.at_least(SINGLES, LINE, ONE, 3)
    run.at_least(SINGLES, LINE, MANY, 3)


async def _published(server: Server, seconds: float) -> float:
    [path] = await sessions(server, 1)
    return (await websocket.published(server.port, f"{path}/publish", MESSAGE, UNANSWERED, seconds)).rate


async def _posted(server: Server, count: int, seconds: float) -> float:
    """The same number of connections, on so many sessions."""
    paths = await sessions(server, count) * (CONNECTIONS // count)
    return (await closed_loop([server.port], [post(f"{path}/events", SINGLE) for path in paths], seconds)).rate


async def _flooded(server: Server, seconds: float) -> int:
    [path] = await sessions(server, 1)
    return await websocket.flooded(server.port, f"{path}/publish", LARGE, seconds)


BENCHMARK = Benchmark("line", __doc__ or "", measure)
