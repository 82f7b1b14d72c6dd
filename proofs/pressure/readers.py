"""Clients that hold something open: tails that come and go, readers that do not read, writers that hardly write."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time

from proofs.client import expect, opened, stream_lines
from proofs.pressure.stage import (
    Accounts,
    Stage,
    create,
    descriptors,
    events,
    eventually,
    head,
    memory_of,
    room_for,
    sluggish,
)
from proofs.proof import percentiles

NDJSON, SSE = "application/x-ndjson", "text/event-stream"
ABRUPTLY = struct.pack("ii", 1, 0)
"""SO_LINGER: the connection is reset, without a farewell."""
SLACK = 10
SLOW_MB, SLOW_READER_MB = 60, 2
DRIP_MB = 60

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def tails(stage: Stage) -> None:
    """Tails opened and closed, half of them in good order and half torn off: descriptors, connections to the engine,
    and what the server counts as followed are back where they were."""
    run, count = stage.run, room_for(stage.run.pick(quick=100, full=1_000, mutated=60))
    names = [f"tail-{n}" for n in range(10)]
    await create(stage.server, *names)
    await _open_and_close(stage, names, count // 2)  # so that pools are as large as they get
    await _let_go(stage)
    files, connections = descriptors(stage.server), stage.connections()
    run.progress(f"{count} tails")
    with memory_of(stage.server) as memory:
        await _open_and_close(stage, names, count)
        await _let_go(stage)

    def left() -> str:
        return (
            f"{count} tails came and went: {files} descriptors before, {descriptors(stage.server)} after;"
            f" {connections} connections to the engine before, {stage.connections()} after"
        )

    def back() -> bool:
        return descriptors(stage.server) <= files + SLACK and stage.connections() <= connections + SLACK

    await eventually(run, back, left)
    run.figure(f"{count:,} tails came and went: descriptors", f"{files} before, {descriptors(stage.server)} after")
    run.figure("connections to the engine", f"{connections} before, {stage.connections()} after")
    run.figure("memory with the tails", memory)


async def _open_and_close(stage: Stage, names: list[str], count: int) -> None:
    """Open them all, see that each is shown an event that comes then, and close them."""
    streams = list[_Stream]()
    for start in range(0, count, 100):
        wanted = range(start, min(start + 100, count))
        streams += await asyncio.gather(*(_tail(stage, names[n % len(names)], n) for n in wanted))
    async with stage.server.client() as client:
        for name in names:
            expect(await client.request("POST", events(name), {"type": "tails.seen"}), 201)
    shown = await asyncio.gather(*(_shows(reader, b"tails.seen") for reader, _ in streams))
    stage.run.check(all(shown), f"{shown.count(False)} of {count} tails were not shown an event")
    for number, (_, writer) in enumerate(streams):
        if number % 2:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
            writer.transport.abort()
        else:
            writer.close()


async def _tail(stage: Stage, name: str, number: int) -> _Stream:
    path = "/v1/stream?cursor=now" if number % 5 == 4 else f"/v1/sessions/{name}/stream?from=now"
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.server.port)
    writer.write(head(stage.server, path, SSE if number % 3 else NDJSON))
    answer = await reader.readuntil(b"\r\n\r\n")
    stage.run.check(b" 200 " in answer, f"GET {path}: {answer[:200]!r}")
    return reader, writer


async def _shows(reader: asyncio.StreamReader, wanted: bytes) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while line := await reader.readline():
                if wanted in line:
                    return True
    return False


async def _let_go(stage: Stage) -> None:
    """Wait until the server follows nothing any more."""
    give_up = time.monotonic() + stage.run.pick(quick=20.0, full=20.0, mutated=4.0)
    while open_tails := await _open_tails(stage):
        on_time = time.monotonic() < give_up
        stage.run.check(on_time, f"every reader has gone, and the server still follows {open_tails} tails for them")
        await asyncio.sleep(0.1)


async def _open_tails(stage: Stage) -> int:
    async with stage.server.client() as client:
        lines = expect(await client.request("GET", "/metrics"), 200).body.decode().splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("layby_open_tails "))


async def slow(stage: Stage) -> None:
    """Readers who read nothing, or a byte a second, while much is appended: they cost a bounded amount each, and a
    reader who reads gets everything."""
    run, count = stage.run, stage.run.pick(quick=20, full=200)
    half, filler = run.pick(quick=100, full=500, mutated=200), "x" * 50_000
    accounts = Accounts(run)
    await create(stage.server, "slow")
    async with stage.server.client() as client:
        for number in range(half):
            await accounts.append(client, "slow", number, filler)
        with memory_of(stage.server) as memory:
            held = [sluggish(stage.server, _slowly(stage, n)) for n in range(count)]
            sipping = asyncio.create_task(_sip(held[::2]))
            reading = asyncio.create_task(_read_all(stage, 2 * half))
            accounts.took_ms.clear()
            for number in range(half, 2 * half):
                run.check((await accounts.append(client, "slow", number, filler)).status == 201, "refused")
                run.progress(f"{number} events of 50 kB past {count} slow readers")
            run.check(await reading == list(range(2 * half)), "a reader beside slow ones was not shown everything")
        sipping.cancel()
        for one in held:
            one.close()
        await accounts.judge(client, "slow")
    allowed = SLOW_MB + SLOW_READER_MB * count
    run.check(memory.peak < allowed, f"{count} readers that do not read: {memory}; at most {allowed} MB are theirs")
    run.figure(f"{count} slow readers, {2 * half // 20} MB appended: memory", memory)
    run.figure("appends beside them p50/p99/max", percentiles(accounts.took_ms))


def _slowly(stage: Stage, number: int) -> bytes:
    kinds = (
        "/v1/sessions/slow/stream",
        "/v1/sessions/slow/stream?from=now",
        f"{events('slow')}?limit=20",
        "/v1/stream",
    )
    return head(stage.server, kinds[number % len(kinds)], SSE if number % 3 and number % 4 != 2 else NDJSON)


async def _sip(held: list[socket.socket]) -> None:
    while True:
        for one in held:
            one.setblocking(False)
            with contextlib.suppress(OSError):
                one.recv(1)
        await asyncio.sleep(1.0)


async def _read_all(stage: Stage, count: int) -> list[int]:
    """The numbers of all load events, as a tail shows them."""
    found, path = list[int](), "/v1/sessions/slow/stream?types=load.event"
    async with asyncio.timeout(120), opened(stage.server.port, path) as (_, reader):
        async for lines in stream_lines(reader):
            found += [json.loads(line)["data"]["n"] for line in lines if line]
            if len(found) >= count:
                break
    return found


async def drip(stage: Stage) -> None:
    """Clients that send a byte a second, of their heads or of their bodies: everybody else is served."""
    run, count = stage.run, room_for(stage.run.pick(quick=100, full=500))
    await create(stage.server, "drip")
    accounts, files = Accounts(run), descriptors(stage.server)
    async with stage.server.client() as client:
        with memory_of(stage.server) as memory:
            dripping = [await asyncio.open_connection("127.0.0.1", stage.server.port) for _ in range(count)]
            until, number = time.monotonic() + run.pick(quick=1.0, full=20.0), 0
            sending = asyncio.create_task(_drip(stage, dripping))
            while time.monotonic() < until:
                answer = await accounts.append(client, "drip", number)
                run.check(answer.status == 201, f"{count} clients send a byte a second, and another one hears {answer}")
                number += 1
        sending.cancel()
        for _, writer in dripping:
            writer.close()
        await accounts.judge(client, "drip")
    await eventually(
        run,
        lambda: descriptors(stage.server) <= files + SLACK,
        lambda: f"{count} slow writers have gone, and {descriptors(stage.server)} descriptors are open, not {files}",
    )
    run.check(memory.peak < DRIP_MB, f"{count} clients that send a byte a second: {memory}")
    run.figure(f"beside {count} clients that send a byte a second, appends p50/p99/max", percentiles(accounts.took_ms))


async def _drip(stage: Stage, streams: list[_Stream]) -> None:
    host = f"Host: 127.0.0.1:{stage.server.port}\r\n".encode()
    post = b"POST " + events("drip").encode() + b" HTTP/1.1\r\n" + host + b"Content-Length: 100000\r\n\r\n"
    for _, writer in streams[::2]:
        writer.write(post)
    get = head(stage.server, "/v1/sessions")
    for number in range(len(get) - 2):
        for index, (_, writer) in enumerate(streams):
            if not writer.is_closing():
                writer.write(get[number : number + 1] if index % 2 else b" ")
        await asyncio.sleep(1.0)
