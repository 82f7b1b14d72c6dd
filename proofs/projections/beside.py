"""Servers that project side by side, under load: one is stopped for a while, or killed, while the models are rebuilt.
And a session that cannot be projected, beside others that can."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proofs.client import Answer, Client
from proofs.engines import Engine
from proofs.model.drivers import PARTITIONS, OverHttp
from proofs.projections.comparing import Compared, rebuilt
from proofs.projections.damage import Damaged
from proofs.projections.writers import Acknowledged, Writer
from proofs.proof import Run
from proofs.servers import Server

WHOLE, BROKEN = ("beside-1", "beside-2"), ("beside-broken-1", "beside-broken-2")


def servers(run: Run, compared: Compared) -> None:
    with Engine(run.folder / "beside") as engine:
        settings = {"partitions": str(PARTITIONS)}
        pair = [Server(run.folder / name, redis_url=engine.url, settings=settings) for name in ("one", "two")]
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Server.start, pair))
            _prove(run, compared, engine, pair)
        finally:
            for server in pair:
                server.end()


def _prove(run: Run, compared: Compared, engine: Engine, pair: list[Server]) -> None:
    driver = OverHttp(pair[0])
    try:
        if run.option("part") != "throws":
            asyncio.run(Load(run, pair).run())
            compared.whole(engine, driver, "after two servers projected under load, and a rebuild")
        if run.option("part") != "load":
            throws(run, engine, pair, driver)
            compared.whole(engine, driver, "after what could not be projected was mended")
    finally:
        driver.let_go()


class Load:
    """Writers and readers at two servers, and what becomes of those meanwhile."""

    def __init__(self, run: Run, pair: list[Server]) -> None:
        self._run, self._pair = run, pair
        self._known, self._reads, self._over = Acknowledged(), 0, asyncio.Event()

    async def run(self) -> None:
        run = self._run
        readers = [asyncio.create_task(self._read(server)) for server in self._pair]
        writers = [asyncio.create_task(self._write(n)) for n in range(4)]
        try:
            for _ in range(run.pick(quick=1, full=6)):
                await self._trouble()
        finally:
            self._over.set()
            await asyncio.gather(*writers)
            await asyncio.gather(*readers)
        run.figure("requests under load", self._known.requests)
        run.figure("lists read meanwhile, all current", self._reads)

    async def _trouble(self) -> None:
        """A rebuild, while one of the servers stands still or is killed."""
        stopped = self._pair[1]
        work = asyncio.create_task(asyncio.to_thread(self._pair[0].layby, "rebuild"))
        os.kill(stopped.pid, signal.SIGSTOP)
        await asyncio.sleep(self._run.pick(quick=0.3, full=3.0))
        os.kill(stopped.pid, signal.SIGCONT)
        if self._run.size == "full":
            await asyncio.to_thread(stopped.kill, "server")
            await asyncio.to_thread(stopped.start)
        done = await work
        self._run.check(done.returncode == 0, f"layby rebuild under load: {done.returncode} {done.stderr[-1000:]}")
        self._run.progress(f"under load: {done.stdout.strip()}")

    async def _write(self, number: int) -> None:
        rng = random.Random(f"{self._run.seed} {number}")
        clients = [server.client() for server in self._pair]

        async def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
            client = rng.choice(clients)
            if method != "POST":
                return await _until_heard(lambda: client.request(method, path, body))
            answer, _ = await client.insist(method, path, body)
            return answer

        writer = Writer(send, f"l{number}", f"{self._run.seed} {number}", self._known)
        while not self._over.is_set():
            await writer.once()
        for client in clients:
            client.close()

    async def _read(self, server: Server) -> None:
        """Whatever was acknowledged before a list is asked for stands in it: however old its models are, and however
        new its generation."""
        async with server.client() as client:
            while not self._over.is_set():
                await self._all_there(client)

    async def _all_there(self, client: Client) -> None:
        before = {name: seq for name, seq in self._known.seqs.items() if name not in self._known.gone}
        answer = await _until_heard(lambda: client.request("GET", "/v1/sessions?limit=1000"))
        self._run.check(answer.status == 200, f"the list of sessions under load: {answer}")
        shown = {row["session_id"]: row["seq"] for row in answer.json()["sessions"]}
        for name, seq in before.items():
            if name not in self._known.gone:
                told = f"{name} was acknowledged up to seq {seq}, and a list that was asked for later shows"
                self._run.check(shown.get(name, 0) >= seq, f"{told} {shown.get(name, 'nothing')}")
        page = await _until_heard(lambda: client.request("GET", "/v1/calls?limit=1000"))
        waiting = {call["status"] for call in page.json()["calls"]} - {"PENDING_APPROVAL"}
        self._run.check(not waiting, f"the inbox shows calls that are {waiting}")
        self._reads += 2


async def _until_heard(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """A server that was killed is asked again when it is back."""
    while True:
        try:
            answer = await ask()
            if answer.status != 503:
                return answer
        except (OSError, EOFError, ValueError):
            pass
        await asyncio.sleep(0.05)


def throws(run: Run, engine: Engine, pair: list[Server], driver: OverHttp) -> None:
    """A log with a damaged line cannot be projected. Everything else goes on, and the operator hears of it."""
    sessions = [*WHOLE, *BROKEN]
    for name in sessions:
        _post(run, driver, "/v1/sessions", {"session_id": name, "agent": "ann"})
        _ask(run, driver, name, "c1")
    damaged = [Damaged(engine.client, name) for name in BROKEN]
    for number, one in enumerate(damaged):
        one.line(seq=2, cut=number == 0)
    try:
        asyncio.run(rebuilt(engine.url))  # so that the damage is met
    except Exception as error:
        run.check(False, f"a rebuild stopped at one damaged session: {error!r}")
    for name in sessions:
        _ask(run, driver, name, "c2")
    _others_go_on(run, driver)
    for name in BROKEN:
        word = f"session {name} cannot be projected; run `layby verify {name}`"
        told = any(word in server.log.read_text() for server in pair)  # by the one that projected it
        run.check(told, f"the operator does not hear of it: no {word!r} in the log of either server")
    for one in damaged:
        one.mend()
    for name in sessions:
        _ask(run, driver, name, "c3")


def _others_go_on(run: Run, driver: OverHttp) -> None:
    rows = _read(run, driver, "/v1/sessions?limit=1000")["sessions"]
    shown = {row["session_id"]: row["open_calls"] for row in rows if row["session_id"].startswith("beside")}
    run.check(shown == dict.fromkeys(WHOLE, 2), f"beside damaged sessions, these are shown: {shown}")
    calls = _read(run, driver, "/v1/calls?limit=1000")["calls"]
    names = sorted(call["session_id"] for call in calls if call["session_id"].startswith("beside"))
    run.check(names == sorted(2 * WHOLE), f"the inbox beside damaged sessions: {names}")


def _read(run: Run, driver: OverHttp, path: str) -> Any:
    answer = driver.request("GET", path, b"", {})
    run.check(answer.status == 200, f"beside a damaged session, GET {path} heard {answer}")
    return answer.json()


def _ask(run: Run, driver: OverHttp, session_id: str, name: str) -> None:
    data: dict[str, Any] = {"interrupt_id": name, "tool_name": "pay", "tool_args": {}}
    _post(run, driver, f"/v1/sessions/{session_id}/events", {"type": "input.requested", "data": data})


def _post(run: Run, driver: OverHttp, path: str, body: Any) -> None:
    answer = driver.request("POST", path, json.dumps(body).encode(), {})
    run.check(answer.status == 201, f"beside a damaged session, POST {path} heard {answer}")
