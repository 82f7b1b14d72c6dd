"""What is tried: calls that fall due in a steady trickle, and thousands of them within one second."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from eventstore.domain.values import timestamps
from proofs.client import Client, expect
from proofs.engines import Engine, eventually
from proofs.expiry.scene import Scene, follow, rate_at_rest
from proofs.proof import percentiles
from proofs.servers import Server, running

DUE_PER_S = 50
BLOCK_MS = 1_000
APPENDERS = 4
APPEND_EVERY_S = 0.04
SLOWER_AT_MOST = 1.10
ENOUGH_BLOCKS = 8
DRAWS = 5_000
QUIET_PER_S = 100


async def lag(scene: Scene) -> None:
    """Fifty are due each second, in every other block of two seconds; appends go on all the while."""
    blocks = scene.run.pick(quick=1, full=24, mutated=1)
    connected, seen = asyncio.Event(), dict[str, float]()
    following = asyncio.create_task(follow(scene.server, seen, connected))
    await asyncio.wait_for(connected.wait(), 30)
    begin = await scene.ask("lag", [2 * BLOCK_MS * block + at for block in range(blocks) for at in _trickle()])
    end = begin + 2 * BLOCK_MS * blocks
    async with _appending(scene) as appends:
        await _inbox_until(scene, end)
    await scene.until_swept(end, "the trickle")
    await _shown(scene, seen)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    _compare(scene, begin, blocks, appends)


async def _shown(scene: Scene, seen: dict[str, float]) -> None:
    """Each expiry is shown to a follower of all sessions."""
    give_up = time.monotonic() + scene.patience_s
    while missing := [one.interrupt_id for one in scene.due if one.interrupt_id not in seen]:
        scene.run.check(time.monotonic() < give_up, f"a follower was not shown that {missing[:3]} expired")
        await asyncio.sleep(0.05)
    late = percentiles(seen[one.interrupt_id] - one.at for one in scene.due)
    scene.run.figure("shown to a follower p50/p99/max after the deadline", late)


def _trickle() -> range:
    return range(0, BLOCK_MS, 1_000 // DUE_PER_S)


async def _inbox_until(scene: Scene, end_ms: int) -> None:
    """Ask for the inbox now and then: nothing in it was due before it was asked for."""
    async with scene.server.client(timeout_s=120) as client:
        while (now := await scene.now()) < end_ms:
            answer = await client.request("GET", "/v1/calls?limit=5")
            if answer.status != 503:  # too much to catch up with just now: that is no wrong answer
                calls = expect(answer, 200).json()["calls"]
                late = [call for call in calls if call["expires_at"] <= timestamps.text(now)]
                scene.run.check(not late, f"at {timestamps.text(now)} the inbox still offered {late[:1]}")
            await asyncio.sleep(1.0)


def _compare(scene: Scene, begin: int, blocks: int, appends: list[tuple[float, float]]) -> None:
    """Appends beside expiries against appends without them, a block and its neighbour at a time."""
    by_block = [list[float]() for _ in range(2 * blocks)]
    for at, took in appends:
        if 0 <= (block := int(at - begin) // BLOCK_MS) < len(by_block):
            by_block[block].append(took)
    medians = [statistics.median(block) for block in by_block if block]
    if len(medians) < len(by_block):
        return scene.run.figure("appends beside expiries", "too few to compare")
    ratios = [busy / calm for busy, calm in zip(medians[::2], medians[1::2], strict=True)]
    told, least = f"{statistics.median(ratios):.2f}, too few to judge", 0.0
    if len(ratios) >= ENOUGH_BLOCKS:
        least, most = certain(ratios, scene.random)
        told = f"{statistics.median(ratios):.2f} (certainly {least:.2f} to {most:.2f})"
    scene.run.figure("an append takes, beside expiries, times as long", told)
    scene.run.check(least <= SLOWER_AT_MOST, f"appends beside expiries take {told} times as long: {sorted(ratios)}")
    return None


def certain(values: Sequence[float], source: random.Random) -> tuple[float, float]:
    """Between what and what the median of all such values lies, but for one case in five hundred: by medians of these
    values, drawn again and again (a bootstrap)."""
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[DRAWS // 1_000], medians[-1 - DRAWS // 1_000]


async def mass(scene: Scene) -> None:
    """Thousands within one second, and appends all the while."""
    begin = await scene.ask("mass", _at_once(scene, quick=1_000))
    async with _appending(scene) as appends:
        await scene.until_swept(begin + 1_000, "thousands at once")
    took = [ms for at, ms in appends if at >= begin]
    scene.run.check(bool(took), "nothing could be appended while thousands expired")
    scene.run.figure("appends meanwhile p50/p99/max", percentiles(took))


def _at_once(scene: Scene, quick: int = 500) -> list[int]:
    count = scene.run.pick(quick=quick, full=20_000, mutated=800)
    return [scene.random.randrange(1_000) for _ in range(count)]


async def kill(scene: Scene) -> None:
    """The same, but in the middle of it the engine is killed, and then the server that sweeps."""
    begin = await scene.ask("kill", _at_once(scene))
    await _reached(scene, begin + 300)
    await asyncio.to_thread(scene.engine.kill)
    await asyncio.to_thread(_started, scene.engine)
    await _reached(scene, begin + 600)
    scene.server.kill("server")
    await _reached(scene, begin + 1_500)  # by now all are overdue, and the engine has forgotten their markers
    scene.run.figure("sessions with overdue calls after the kills", await scene.overdue())
    began = time.monotonic()
    await asyncio.to_thread(scene.server.start)
    await scene.until_swept(begin + 1_000, "after the kills")
    scene.run.figure("server started, and all swept, in", f"{time.monotonic() - began:.1f} s")


def _started(engine: Engine) -> None:
    """It has much to load."""
    with contextlib.suppress(TimeoutError):
        return engine.start()
    eventually(engine.client.ping, "the engine has loaded its data", patience_s=300.0)
    return None


async def _reached(scene: Scene, at_ms: int) -> None:
    await asyncio.sleep(max(0, at_ms - await scene.now()) / 1000)


async def pair(scene: Scene) -> None:
    """The same, with two servers that sweep; and what they ask of the engine when there is nothing to do."""
    other = Server(scene.run.folder / "other", redis_url=scene.engine.url)
    with running(other):
        begin = await scene.ask("pair", _at_once(scene))
        before = [await _commits(server) for server in (scene.server, other)]
        await scene.until_swept(begin + 1_000, "two servers")
        shares = [await _commits(server) - was for server, was in zip((scene.server, other), before, strict=True)]
        scene.run.figure("commits of each of two sweepers", " and ".join(f"{share:,}" for share in shares))
        if not scene.run.mutation:
            scene.run.check(all(shares), f"one server swept alone: {shares}")
            rate = await rate_at_rest(scene.engine, scene.run.pick(quick=1.0, full=16.0), 60.0, QUIET_PER_S)
            scene.run.figure("two idle servers send the engine", f"{rate:.0f} commands/s")
            scene.run.check(rate < QUIET_PER_S, f"two idle servers still send the engine {rate:.0f} commands a second")


async def _commits(server: Server) -> int:
    async with server.client() as client:
        text = expect(await client.request("GET", "/metrics"), 200).body.decode()
    return next(int(float(line.split()[1])) for line in text.splitlines() if line.startswith("layby_commits_total "))


@asynccontextmanager
async def _appending(scene: Scene) -> AsyncGenerator[list[tuple[float, float]]]:
    """Append to sessions of their own, at a pace that leaves the server room. Gives when each was sent, and how long it
    took, ms."""
    took, stop = list[tuple[float, float]](), asyncio.Event()

    async def work(client: Client, path: str) -> None:
        while not stop.is_set():
            began = time.time() * 1000
            expect(await client.request("POST", path, {"type": "note.taken"}), 201)
            took.append((began, time.time() * 1000 - began))
            await asyncio.sleep(APPEND_EVERY_S)

    async def one() -> None:
        async with scene.server.client() as client:
            made = expect(await client.request("POST", "/v1/sessions", {}), 201).json()
            await work(client, f"/v1/sessions/{made['session_id']}/events")

    async with asyncio.TaskGroup() as group:
        for _ in range(APPENDERS):
            group.create_task(one())
        try:
            yield took
        finally:
            stop.set()
