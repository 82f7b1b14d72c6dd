"""A failover that loses what was acknowledged at `memory`: part of the proof `cluster`.

A replica hangs while much is written; its primary is killed; the replica wakes up and is promoted. What it never got is
gone, and its numbers are given out again. Consumers stood in what is gone: with a cursor over all sessions, and with a
tail that was open all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

from proofs.client import Answer, opened, page_through, stream_lines
from proofs.engines import Cluster
from proofs.proof import Run
from proofs.servers import Server, running

PADDING = 200_000
"""Bytes of one event: what is written while the replica hangs does not fit the buffers between it and its primary."""


async def prove(run: Run, cluster: Cluster, servers: list[Server]) -> None:
    with running(*servers):
        session = await _session(servers[0], "lost-and-found")
        slot = cluster.slot(f"{{p{_partition(cluster, session):02}}}")
        primary = cluster.owner(slot)
        replica = await asyncio.to_thread(cluster.replica_of, primary)
        feed, tail = Reader(servers[0], "/v1/stream"), Reader(servers[1], f"/v1/sessions/{session}/stream")
        readers = [asyncio.create_task(feed.run()), asyncio.create_task(tail.run())]
        common = await _write(servers[0], session, 3, "kept", 10)
        await _until(run, lambda: feed.seq(session) >= common, "the feed shows what was written")
        replica.freeze()
        acknowledged = await _write(servers[0], session, run.pick(quick=150, full=400), "lost", PADDING)
        await _until(run, lambda: min(feed.seq(session), tail.seq(session)) >= acknowledged, "readers saw it all")
        run.progress(f"{acknowledged} events acknowledged at memory; the primary is killed, its replica hangs")
        primary.kill()
        replica.thaw()
        await asyncio.to_thread(cluster.take_over, replica)
        await _write(servers[1], session, acknowledged, "after", 10)  # beyond the numbers that readers were told
        await _judge(run, servers, session, feed, tail, acknowledged)
        for reader in readers:
            reader.cancel()


async def _judge(run: Run, servers: list[Server], session: str, feed: Reader, tail: Reader, acknowledged: int) -> None:
    async with servers[0].client() as client:
        stored = await page_through(client, session)
        kept = sum(event["data"].get("what") in ("kept", "lost") for event in stored) + 1
        run.check([e["seq"] for e in stored] == list(range(1, len(stored) + 1)), "offsets are not dense afterwards")
        run.check(kept < acknowledged, "nothing was lost: the failover did not do what this proof needs")
        run.figure("acknowledged at memory and lost", acknowledged - kept)
        for reader, name in ((feed, "the feed of all sessions"), (tail, "a tail")):
            run.check(
                not any(event["data"].get("what") == "after" for event in reader.of(session)),
                f"{name}, open over the failover, went on with other events under numbers that it had told",
            )
        answer = await client.request("GET", f"/v1/stream?cursor={feed.cursor}")
        run.check(answer.problem == "diverged", f"a cursor that stands in what is lost is answered {answer}")
        await _goes_on(run, servers[0], session, answer, (kept, acknowledged))
    await _is_named(run, servers, session)


async def _goes_on(run: Run, server: Server, session: str, answer: Answer, counts: tuple[int, int]) -> None:
    """From the last common point, with what is there now and nothing before it."""
    kept, acknowledged = counts
    reader = Reader(server, f"/v1/stream?cursor={answer.json()['cursor']}")
    task = asyncio.create_task(reader.run())
    async with server.client() as client:
        stored = await page_through(client, session)
    await _until(run, lambda: reader.seq(session) >= len(stored), "from the last common point the feed goes on")
    task.cancel()
    shown = reader.of(session)
    run.check(shown == stored[len(stored) - len(shown) :], "from the last common point the feed shows something else")
    run.check(shown[0]["seq"] <= kept + 1, f"after seq {kept} the feed goes on with {shown[0]['seq']}")
    known = {one["session_id"]: one for one in answer.json()["sessions"]}
    told = known.get(session, {"last_common_seq": kept, "acknowledged_seq": acknowledged})
    run.check(
        kept <= told["last_common_seq"] < acknowledged == told["acknowledged_seq"],
        f"{acknowledged} events were acknowledged and {kept} are left, `diverged` names {told}",
    )


async def _is_named(run: Run, servers: list[Server], session: str) -> None:
    give_up = time.monotonic() + 60
    for server in servers:
        async with server.client() as client:
            while not (ready := (await client.request("GET", "/readyz")).json())["diverged"]:
                run.check(time.monotonic() < give_up, "60 s after the loss /readyz does not name it")
                await asyncio.sleep(0.2)
            run.check(session not in json.dumps(ready), "/readyz, which needs no key, names a session")
    verified = await asyncio.to_thread(servers[0].layby, "verify")
    told = verified.stdout + verified.stderr
    run.check(verified.returncode == 3 and "lost acknowledged events" in told, f"layby verify: {told[-500:]}")
    run.check(f"{session} has lost" in told, f"layby verify does not name the session: {told[-500:]}")
    run.figure("named by", "the cursor, /readyz, layby verify")


async def _session(server: Server, name: str) -> str:
    async with server.client() as client:
        await client.insist("POST", "/v1/sessions", {"session_id": name})
    return name


def _partition(cluster: Cluster, session: str) -> int:
    """Where the session lies: whose keys are there tells."""
    for node in cluster.nodes:
        for key in node.client.scan_iter(f"*:s:{session}:events", count=1000):
            return int(key.partition("{p")[2].partition("}")[0])
    raise LookupError(f"no node has {session}")


async def _write(server: Server, session: str, count: int, what: str, padding: int) -> int:
    """One after another; the seq of the last."""
    seq = 0
    async with server.client() as client:
        for _ in range(count):
            event = {"type": "test.event", "data": {"what": what, "padding": "x" * padding}}
            answer, _ = await client.insist("POST", f"/v1/sessions/{session}/events", event)
            seq = answer.json()["last_seq"]
    return seq


async def _until(run: Run, holds: Any, what: str) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        run.check(time.monotonic() < give_up, f"not within 60 s: {what}")
        await asyncio.sleep(0.02)


class Reader:
    """Reads a stream once, until it ends or is cut, and never comes back by itself."""

    def __init__(self, server: Server, path: str) -> None:
        self._port, self._path = server.port, path
        self.lines = list[dict[str, Any]]()

    @property
    def cursor(self) -> str:
        return self.lines[-1]["cursor"]

    def of(self, session: str) -> list[dict[str, Any]]:
        """The events of a session, as they are stored."""
        passing = ("session_id", "cursor")
        mine = [line for line in self.lines if line.get("session_id", session) == session and "seq" in line]
        return [{name: value for name, value in line.items() if name not in passing} for line in mine]

    def seq(self, session: str) -> int:
        """The newest that it was told of a session."""
        return max(
            (line["seq"] for line in self.lines if line.get("session_id", session) == session and "seq" in line),
            default=0,
        )

    async def run(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            async with opened(self._port, self._path) as (_, reader):
                async for lines in stream_lines(reader):
                    self.lines += [json.loads(line) for line in lines if line]
