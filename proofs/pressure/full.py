"""An engine without memory, and an engine whose disk is full."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any

from redis import from_url

from proofs.client import Answer, Client, expect
from proofs.engines import EngineClient
from proofs.pressure.stage import LOAD, MB, Accounts, Stage, create, events
from proofs.servers import Server, running

ROOM = 3 * MB
DISK = "24m"
ON_A_DISK = 'mount -t tmpfs -o size="$0" disk "$1" && shift && exec "$@"'
FILLER = "x" * 60_000


async def memory(stage: Stage) -> None:
    """An engine that has no memory left: 507, nothing is half-written, reads go on, and it goes on with the next
    append once there is more."""
    await _memory(stage, stage.server, stage.engine.client, "memory")
    if stage.run.size == "full" and not stage.run.mutation:
        server = Server(stage.run.folder / "embedded")
        with running(server), from_url(server.engine_url) as engine:
            await _memory(stage, server, engine, "embedded")


async def _memory(stage: Stage, server: Server, engine: EngineClient, name: str) -> None:
    run, accounts = stage.run, Accounts(stage.run)
    await create(server, name, "old")
    async with server.client() as client:
        expect(await client.request("POST", events("old"), [{"type": LOAD, "data": {"filler": FILLER}}] * 20), 201)
        engine.config_set("maxmemory", engine.info("memory")["used_memory"] + ROOM)
        try:
            full = await _fill(accounts, client, name, 200)
            run.check(full.problem == "store-full", f"an engine without memory left: {full}")
            engine.config_set("maxmemory", engine.info("memory")["used_memory"] - ROOM)
            await _refused_whole(stage, client, name)
            await _readable(stage, client, name, accounts)
            await _makes_room(stage, client, engine)
        finally:
            engine.config_set("maxmemory", 0)
        again = await accounts.append(client, name, 1_000)
        run.check(again.status == 201, f"there is memory again, and an append hears {again}")
        await accounts.judge(client, name)
    run.figure(f"events until the {name} engine was full, all others refused", len(accounts.acknowledged[name]) - 1)


async def _fill(accounts: Accounts, client: Client, name: str, most: int) -> Answer:
    """Append until it is refused. The refusal."""
    for number in range(most):
        answer = await accounts.append(client, name, number, FILLER)
        if answer.status != 201:
            return answer
    accounts.run.check(False, f"{most} events of {len(FILLER)} bytes were acknowledged; there is no room for them")
    raise AssertionError


async def _refused_whole(stage: Stage, client: Client, name: str) -> None:
    """What would write several things is refused as a whole: a session with its message, a call with its marker."""
    run, data = stage.run, dict[str, Any](interrupt_id="c1", tool_name="pay", tool_args={})
    asked = await client.request("POST", events(name), [{"type": "input.requested", "data": data}] * 2)
    run.check(asked.status == 507, f"a call was asked of a full store: {asked}")
    call = await client.request("GET", f"/v1/sessions/{name}/calls/c1")
    run.check(call.status == 404, f"a call that was refused with 507 is there: {call}")
    made = await client.request("POST", "/v1/sessions", {"session_id": f"{name}-2", "message": "hello"})
    run.check(made.status == 507, f"a session was asked of a full store: {made}")
    found = await client.request("GET", f"/v1/sessions/{name}-2")
    run.check(found.status == 404, f"a session that was refused with 507 is there: {found}")


async def _readable(stage: Stage, client: Client, name: str, accounts: Accounts) -> None:
    snapshot = await client.request("GET", f"/v1/sessions/{name}")
    wanted = 1 + len(accounts.acknowledged[name])
    stage.run.check(snapshot.status == 200, f"a full store cannot be read: {snapshot}")
    stage.run.check(snapshot.json()["seq"] == wanted, f"acknowledged up to {wanted}, and the snapshot says {snapshot}")
    for path in (f"{events(name)}?limit=10", f"/v1/sessions/{name}?at=2", "/v1/sessions?limit=1", "/healthz"):
        answer = await client.request("GET", path)
        # A list that is not up to date must write to become so.
        allowed = (200, 507) if path == "/v1/sessions?limit=1" else (200,)
        stage.run.check(answer.status in allowed, f"a full store: GET {path} hears {answer}")


async def _makes_room(stage: Stage, client: Client, engine: EngineClient) -> None:
    """A session can be deleted, for that is what makes room."""
    before = engine.info("memory")["used_memory"]
    deleted = await client.request("DELETE", "/v1/sessions/old")
    stage.run.check(deleted.status == 204, f"a full store does not let a session be deleted, to make room: {deleted}")
    freed = before - engine.info("memory")["used_memory"]
    stage.run.figure("a deletion freed", f"{freed / MB:.1f} MB")


async def disk(stage: Stage) -> None:
    """A private engine on a small disk that fills up, gets room again, and goes on: nothing acknowledged is lost, and
    whoever asks meanwhile hears 503."""
    folder = stage.run.folder / "small"
    (folder / "data").mkdir(parents=True)
    alone = _own_mounts()
    if not alone:
        return stage.run.figure("disk full", "not tried: this user may not mount a disk (unshare -m)")
    under = [*alone, "sh", "-c", ON_A_DISK, DISK, str(folder / "data")]
    server = Server(folder, under=under)
    with running(server):
        await _disk(stage, server, Path(f"/proc/{server.pid}/root{server.data_dir}"))
    return None


def _own_mounts() -> list[str]:
    """A command that gives a process mounts of its own, which end with it; nothing if the system allows none."""
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        try:
            tried = subprocess.run([*command, "mount", "-t", "tmpfs", "disk", "/mnt"], capture_output=True, check=False)
        except OSError:
            return []
        if tried.returncode == 0:
            return command
    return []


async def _disk(stage: Stage, server: Server, inside: Path) -> None:
    run, accounts = stage.run, Accounts(stage.run)
    await create(server, "disk")
    (inside / "filler").write_bytes(b"x" * 20 * MB)
    async with server.client() as client:
        await _fill(accounts, client, "disk", 200)
        until, number, refused = time.monotonic() + run.pick(quick=1.0, full=20.0), 1_000, 0
        while time.monotonic() < until:
            number += 1
            refused += (await accounts.append(client, "disk", number, FILLER)).status != 201
            read = await client.request("GET", "/v1/sessions/disk")
            run.check(read.status in (200, 503), f"the engine's disk is full, and a read hears {read}")
            await asyncio.sleep(0.1)
        run.check(refused > 0, "the disk is full, and nothing is refused")
        (inside / "filler").unlink()
        began = time.monotonic()
        while (answer := await accounts.append(client, "disk", (number := number + 1))).status != 201:
            run.check(time.monotonic() - began < 40, f"there is room on the disk again, and an append hears {answer}")
            await asyncio.sleep(0.1)
        run.figure("disk full: refused with 503", refused + 1)
        run.figure("goes on, with room again, in", f"{time.monotonic() - began:.1f} s")
        await accounts.judge(client, "disk", unknown=True)
        expect(await client.request("GET", "/readyz"), 200)
