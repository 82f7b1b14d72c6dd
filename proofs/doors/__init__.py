"""No door opens without the right key: every route, with every scope, of two tenants, and with what is no key.

The routes are those of the OpenAPI document, which must name them all; what each needs is written down here, from the
protocol. Two servers share one engine; the keys are made by the command line while they run.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

from proofs.doors import strangers
from proofs.doors.broken import MUTATIONS
from proofs.doors.keyholders import ALL, NEWCOMER, TENANTS, Held, HeldLine, Keys, ask
from proofs.doors.routes import ANY, NONE, ROUTES, SCOPES
from proofs.engines import Engine, free_port
from proofs.proof import Proof, Run
from proofs.servers import ROOT, Server, running


async def prove(run: Run) -> None:
    with Engine(run.folder / "engine") as engine:
        servers = [Server(run.folder / f"server-{n}", redis_url=engine.url) for n in (1, 2)]
        with running(*servers):
            await _prove(run, servers, Keys(servers[0]))
    await asyncio.to_thread(_beyond_loopback, run)


async def _prove(run: Run, servers: list[Server], keys: Keys) -> None:
    await _the_first_key_shuts_the_door(run, servers, keys)
    await keys.make_all((*TENANTS, NEWCOMER))
    await _until_let_in(run, servers, keys)
    names = {tenant: await _waiting_session(run, servers[0], keys, tenant) for tenant in TENANTS}
    await _every_route_is_known(run, servers[0], keys)
    await _every_route_every_key(run, servers, keys, names)
    await strangers.nothing_exists(run, servers[0], keys, names["acme"])
    await strangers.nothing_is_listed(run, servers[0], keys, names["acme"])
    await strangers.retries_are_ones_own(run, servers[0], keys)
    await _a_person_needs_act_as(run, servers[0], keys, names["acme"])
    await strangers.a_lookup_takes_the_same_road(run, servers[0], keys, names["acme"])
    await _revoked_means_out(run, servers, keys, names["acme"])


async def _the_first_key_shuts_the_door(run: Run, servers: list[Server], keys: Keys) -> None:
    """On every server, and with it what came in while it was open."""
    run.check((await ask(servers[1].port, "POST", "/v1/sessions", {"session_id": "s"}, "")).status == 201, "not open")
    held = Held(servers[1].port, "/v1/sessions/s/stream", "")
    task = asyncio.create_task(held.run())
    await asyncio.wait_for(held.began.wait(), 20)
    await keys.make("default", "first", ALL)
    shut = await _until_refused(run, servers, "")
    run.figure("open servers shut, after the first key was made", f"{max(0, max(shut) - keys.changed_at):.1f} s")
    await asyncio.wait([task], timeout=20)
    run.check(task.done(), "20 s after the first key a stream is open that came in without one")


async def _until_refused(run: Run, servers: list[Server], authorization: str) -> list[float]:
    """When each server refused this for the first time."""
    at, give_up = dict[int, float](), time.monotonic() + 30
    while len(at) < len(servers):
        for server in servers:
            answer = await ask(server.port, "GET", "/v1/sessions", None, authorization)
            if answer.status == 401:
                at.setdefault(server.port, time.monotonic())
        run.check(time.monotonic() < give_up, "after 30 s a server still lets in whom it must not")
        await asyncio.sleep(0.05)
    return list(at.values())


async def _until_let_in(run: Run, servers: list[Server], keys: Keys) -> None:
    """Every server has heard of the newest key, and so of all before it."""
    give_up = time.monotonic() + 30
    for server in servers:
        newest = f"Bearer {keys.texts[TENANTS[-1], 'read']}"
        while (await ask(server.port, "GET", "/v1/sessions", None, newest)).status != 200:
            run.check(time.monotonic() < give_up, "30 s after a key was made it opens nothing")
            await asyncio.sleep(0.05)


async def _waiting_session(run: Run, server: Server, keys: Keys, tenant: str) -> dict[str, str]:
    """A session of this tenant that waits for a decision; the first has a name that both tenants use."""
    async with server.client(keys.texts[tenant, "all"]) as client:
        made, _ = await client.insist("POST", "/v1/sessions", {"session_id": f"session-{tenant}-0123456789"})
        run.check(made.status == 201, f"no session with a key of every scope: {made}")
        sid, iid = made.json()["session_id"], f"call-{tenant}-0123456789"
        asked: dict[str, Any] = {"interrupt_id": iid, "tool_name": "t", "tool_args": {}, "expires_in_ms": 3_600_000}
        await client.insist("POST", f"/v1/sessions/{sid}/events", {"type": "input.requested", "data": asked})
        token = (await client.request("GET", f"/v1/sessions/{sid}")).json()["continuation_token"]
    return {"SID": sid, "IID": iid, "TOKEN": token}


async def _every_route_is_known(run: Run, server: Server, keys: Keys) -> None:
    async with server.client(keys.texts["acme", "all"]) as client:
        paths = (await client.request("GET", "/openapi.json")).json()["paths"]
    methods = ("get", "post", "put", "patch", "delete")
    described = {f"{method.upper()} {path}" for path, item in paths.items() for method in item if method in methods}
    known = {str(route) for route in ROUTES}
    run.check(described == known, f"only described: {described - known}; only known here: {known - described}")


async def _every_route_every_key(run: Run, servers: list[Server], keys: Keys, names: dict[str, dict[str, str]]) -> None:
    tried = 0
    for tenant in TENANTS:
        for route in ROUTES:
            path, body = route.at(names[tenant])
            port = servers[tried % 2].port
            for what, header in keys.credentials(tenant).items():
                answer = await ask(port, route.method, path, body, header, stream=route.stream, headers=route.headers)
                told = f"{route} with {what} of {tenant}: {answer}"
                run.check((answer.status == 401) == (route.scope != NONE), told)
                if answer.status == 401 and not path.startswith("/zhin"):
                    run.check(answer.problem == "unauthorized", told)
                    run.check(answer.headers.get("www-authenticate", "").lower().startswith("bearer"), told)
                tried += 1
            for scope in SCOPES:
                header = f"Bearer {keys.texts[tenant, scope]}"
                answer = await ask(port, route.method, path, body, header, stream=route.stream, headers=route.headers)
                told = f"{route} with a key for {scope} of {tenant}: {answer}"
                opens = route.scope in (scope, ANY, NONE)
                run.check(answer.status not in (401, 403) if opens else answer.status == 403, told)
                tried += 1
        run.progress(f"{tried:,} requests at the doors")
    run.figure("routes", len(ROUTES))
    run.figure("requests at the doors, each answered as its key deserves", tried)


async def _a_person_needs_act_as(run: Run, server: Server, keys: Keys, names: dict[str, str]) -> None:
    path, person = f"/v1/sessions/{names['SID']}/events", {"Layby-Actor": "alice"}
    publisher, all_scopes = f"Bearer {keys.texts['acme', 'publish']}", f"Bearer {keys.texts['acme', 'all']}"
    answer = await ask(server.port, "POST", path, {"type": "a.b"}, publisher, headers=person)
    run.check(answer.status == 403, f"a person named without act_as: {answer}")
    answer = await ask(server.port, "POST", path, {"type": "a.b"}, all_scopes, headers=person)
    run.check(answer.status == 201, f"a person named with act_as: {answer}")
    async with server.client(keys.texts["acme", "all"]) as client:
        events = (
            await client.request("GET", f"{path}?order=desc&limit=1", headers={"Accept": "application/json"})
        ).json()
    newest = events["events"][0]
    run.check((newest["by"], newest.get("via")) == ("alice", "all"), f"whose deed it was: {newest}")


async def _revoked_means_out(run: Run, servers: list[Server], keys: Keys, names: dict[str, str]) -> None:
    """Requests are refused, and what is open is cut, on both servers."""
    key = await keys.make("acme", "leaver", ALL)
    sid, iid = names["SID"], names["IID"]
    paths = (f"/v1/sessions/{sid}/stream", "/v1/stream?cursor=now", f"/v1/sessions/{sid}/calls/{iid}?wait_ms=60000")
    lines = [HeldLine(server.port, f"/v1/sessions/{sid}/publish", key) for server in servers]
    helds = [*lines, *(Held(server.port, path, key) for server in servers for path in paths)]
    tasks = [asyncio.create_task(held.run()) for held in helds]
    await asyncio.wait_for(asyncio.gather(*(held.began.wait() for held in helds)), 20)
    revoking = asyncio.create_task(keys.revoke("acme", "leaver"))
    refused = await _until_refused(run, servers, f"Bearer {key}")
    _, open_still = await asyncio.wait(tasks, timeout=30)
    await revoking
    left = [held.path for held, task in zip(helds, tasks, strict=True) if task in open_still]
    run.check(not left, f"30 s after their key was revoked these are open: {left}")
    run.check(all(b'"end"' not in held.end for held in helds), "a stream that was cut says that it ended by rule")
    run.check(all(line.code == 1008 for line in lines), f"lines were closed with {[line.code for line in lines]}")
    cut = max(held.cut_at for held in helds)
    run.figure("a key that was revoked is refused after", f"{max(0, max(refused) - keys.changed_at):.1f} s")
    run.figure("what it held open is cut after", f"{max(0, cut - keys.changed_at):.1f} s")


def _beyond_loopback(run: Run) -> None:
    """Without a key a server does not begin where others could reach it."""
    command = [sys.executable, "-m", "cli", "serve", "--host", "0.0.0.0", "--port", str(free_port())]
    command += ["--data-dir", str(run.folder / "beyond")]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        run.check(False, "without a key a server listens beyond loopback")
        return
    run.check(done.returncode != 0 and "loopback" in done.stderr, f"{done.returncode}: {done.stdout}{done.stderr}")


PROOF = Proof(
    "doors",
    "Nobody gets in without the right key, and nothing tells a tenant what another has.",
    prove,
    mutations=MUTATIONS,
)
