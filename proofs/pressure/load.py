"""More appends than the server can take, and ten thousand sessions at once."""

from __future__ import annotations

import asyncio
import random
import time

from proofs.client import Client
from proofs.pressure.stage import Accounts, Stage, create, memory_of, room_for
from proofs.proof import percentiles
from proofs.servers import Server, running

OVERLOAD_MB = 150
SESSION_KB = 60
"""What a session may cost the server while all append at once, its connection included."""


async def overload(stage: Stage) -> None:
    """A server that lets few wait, and many clients that never stop. It refuses some, properly; those that it accepts
    are there, those that it refuses are not; and as soon as the load ends, the next request is accepted."""
    few = {"max_pending": str(stage.run.pick(quick=16, full=256))}
    server = Server(stage.run.folder / "few", redis_url=stage.engine.url, settings=few)
    with running(server):
        await _overload(stage, server)


async def _overload(stage: Stage, server: Server) -> None:
    run, names = stage.run, [f"load-{n}" for n in range(stage.run.pick(quick=10, full=100))]
    await create(server, *names, "calm")
    calm, accounts = Accounts(run), Accounts(run)
    async with server.client() as client:
        for number in range(run.pick(quick=100, full=500)):
            await calm.append(client, "calm", number)
    with memory_of(server) as memory:
        await _storm(stage, server, names, accounts)
    refused, accepted = sum(map(len, accounts.refused.values())), len(accounts.took_ms)
    run.check(refused > 0, f"{accepted} appends by many at once, of which few may wait, and none was refused")
    async with server.client() as client:
        after = await accounts.append(client, names[0], -1)
        run.check(after.status == 201, f"the load is over, and the next append hears {after}")
        for name in names:
            await accounts.judge(client, name)
    run.check(memory.peak < OVERLOAD_MB, f"under too much load the server grew without bound: {memory}")
    run.figure("overload: accepted, shed", f"{accepted:,}, {refused:,}")
    run.figure("append p50/p99/max unloaded", percentiles(calm.took_ms))
    run.figure("accepted under overload", percentiles(accounts.took_ms))
    run.figure("memory under overload", memory)


async def _storm(stage: Stage, server: Server, names: list[str], accounts: Accounts) -> None:
    chosen, stop = random.Random(stage.run.seed), time.monotonic() + stage.run.pick(quick=1.5, full=20.0, mutated=1.0)
    numbers = iter(range(1 << 40))

    async def work() -> None:
        async with server.client() as client:
            while time.monotonic() < stop:
                answer = await accounts.append(client, chosen.choice(names), next(numbers))
                if answer.status == 503:
                    stage.run.check(answer.problem == "overloaded", f"a server with too much to do answers {answer}")
                    await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        for _ in range(stage.run.pick(quick=200, full=1_000, mutated=150)):
            group.create_task(work())


async def many(stage: Stage) -> None:
    """Every session on a connection of its own, all at once; twice, since what the first round took must do for the
    second."""
    run, count = stage.run, room_for(stage.run.pick(quick=500, full=10_000))
    names, accounts = [f"many-{n}" for n in range(count)], Accounts(run)
    await create(stage.server, *names)
    clients, memories = [stage.server.client(timeout_s=120) for _ in names], list[str]()
    try:
        for turn in (0, 1):
            run.progress(f"{count:,} sessions append at once")
            with memory_of(stage.server) as memory:
                await _at_once(stage, clients, names, accounts, turn)
            memories.append(str(memory))
            allowed = 50 + count * SESSION_KB / 1024 / (1 + turn)
            run.check(memory.peak < allowed, f"{count} sessions at once: {memory}; {allowed:.0f} MB are allowed")
    finally:
        for client in clients:
            client.close()
    shed = sum(map(len, accounts.refused.values()))
    run.figure(f"{count:,} sessions at once: acknowledged, shed", f"{len(accounts.took_ms):,}, {shed:,}")
    run.figure("p50/p99/max", percentiles(accounts.took_ms))
    run.figure("memory", "; again: ".join(memories))
    await _judge(stage, names, accounts)


async def _at_once(stage: Stage, clients: list[Client], names: list[str], accounts: Accounts, turn: int) -> None:
    if turn == 0:
        for start in range(0, len(clients), 500):  # the system's queue for new connections is short
            await asyncio.gather(*(client.request("GET", "/healthz") for client in clients[start : start + 500]))

    async def work(client: Client, name: str) -> None:
        for number in range(stage.run.pick(quick=1, full=3)):
            await accounts.append(client, name, 10 * turn + number)

    async with asyncio.TaskGroup() as group:
        for client, name in zip(clients, names, strict=True):
            group.create_task(work(client, name))


async def _judge(stage: Stage, names: list[str], accounts: Accounts) -> None:
    waiting = iter(names)

    async def work() -> None:
        async with stage.server.client() as client:
            for name in waiting:
                await accounts.judge(client, name)

    await asyncio.gather(*(work() for _ in range(16)))
