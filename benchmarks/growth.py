"""Does the work grow with the length of a session? The same requests at 100 events and at very many."""

from __future__ import annotations

import json
import statistics
from collections.abc import Awaitable, Callable, Mapping

from benchmarks.benchmark import Benchmark, Run
from benchmarks.connection import Connection
from benchmarks.load import get, post
from benchmarks.reader import Reader
from benchmarks.sides import SINGLE, asked, at_rest, grown, layby, question
from proofs.servers import Server

APPEND, DECIDE, SNAPSHOT = "append", "decision", "snapshot"
NOW, LAST = "tail from now: first byte", "tail from -10: first event"
FEW, UNIT = "Layby at 100 events", "ms"
TIMES = 10
"""Of each request in a round, on each side in turn."""
Action = Callable[[str, int], Awaitable[float]]
"""On the session at this path, for the nth time: the milliseconds it took."""


async def measure(run: Run) -> None:
    events, rounds = run.pick(quick=100_000, full=1_000_000), run.pick(quick=20, full=60)
    many = f"Layby at {events:,} events"
    with layby(run.folder) as server:
        async with server.client() as client:
            few_path, many_path = await grown(client, 100), await grown(client, events)
        connection = await Connection.to(server.port)
        await at_rest(server)
        for _ in range(rounds):
            await _compare(run, _reads(server, connection), {FEW: few_path, many: many_path})
        for number in range(rounds):  # what is written to grows: the small one is another each time
            paths = {FEW: await _fresh(server), many: many_path}
            await _ask(server, paths, number)
            await at_rest(server)
            await _compare(run, _writes(connection, number), paths)
        connection.close()
    for what, limit in ((APPEND, 1.1), (DECIDE, 1.1), (SNAPSHOT, 1.5), (NOW, 1.1), (LAST, 1.1)):
        run.at_most(what, many, FEW, limit)


async def _compare(run: Run, actions: Mapping[str, Action], paths: Mapping[str, str]) -> None:
    """Each action on each side in turn, the other one first each time; a round's value is the median of its times."""
    for what, act in actions.items():
        taken: dict[str, list[float]] = {side: [] for side in paths}
        for number in range(TIMES):
            for side in sorted(paths, reverse=bool(number % 2)):
                taken[side].append(await act(paths[side], number))
        for side, times in taken.items():
            run.add(what, side, statistics.median(times), UNIT, "less")


def _reads(server: Server, connection: Connection) -> dict[str, Action]:
    async def snapshot(path: str, _: int) -> float:
        return (await connection.ask(get(path))).ms

    async def tail(path: str, start: str, word: bytes) -> float:
        reader, seconds = await Reader.of(server.port, f"{path}/stream?from={start}", word)
        reader.close()
        return seconds * 1000

    return {
        SNAPSHOT: snapshot,
        NOW: lambda path, _: tail(path, "now", b"HTTP/1.1 200"),
        LAST: lambda path, _: tail(path, "-10", b'"seq":'),
    }


def _writes(connection: Connection, round_: int) -> dict[str, Action]:
    async def append(path: str, _: int) -> float:
        return (await connection.ask(post(f"{path}/events", SINGLE))).ms

    async def decide(path: str, number: int) -> float:
        decision = json.dumps({"action": "approve"}).encode()
        return (await connection.ask(post(f"{path}/calls/{round_}-{number}/decision", decision))).ms

    return {APPEND: append, DECIDE: decide}


async def _fresh(server: Server) -> str:
    async with server.client() as client:
        return await grown(client, 100)


async def _ask(server: Server, paths: Mapping[str, str], round_: int) -> None:
    """The calls that the round decides, on both sides."""
    async with server.client() as client:
        for path in paths.values():
            calls = [question(f"{round_}-{number}") for number in range(TIMES)]
            await asked(client, "POST", f"{path}/events", calls)


BENCHMARK = Benchmark("growth", __doc__ or "", measure)
