"""Two tenants, to each of which nothing of the other exists."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import statistics
import time
from collections import Counter
from typing import Any

import redis

from proofs.client import Answer, Client, opened, page_through, stream_lines
from proofs.doors.keyholders import NEWCOMER, Keys, ask
from proofs.doors.routes import ROUTES, Route
from proofs.engines import EngineClient
from proofs.proof import Run
from proofs.servers import Server

_PASSING = ("date", "layby-request-id")
SILENT_S = 0.7
"""A feed that has shown nothing for so long has shown all that it had."""


async def nothing_exists(run: Run, server: Server, keys: Keys, names: dict[str, str]) -> None:
    """What the other tenant hears about a session is what it hears about one that never was, byte for byte."""
    stranger = f"Bearer {keys.texts['bolt', 'all']}"
    nobody = {word: _another(name) for word, name in names.items()}
    compared = 0
    async with server.client(keys.texts["acme", "all"]) as owner:
        before = await page_through(owner, names["SID"])
        for route in ROUTES:
            if "SID" in route.path or "IID" in route.path:
                answers = [await _heard(server, route, which, stranger) for which in (names, nobody)]
                run.check(answers[0] == answers[1], f"{route}: of another tenant {answers[0]}, of nobody {answers[1]}")
                run.check(answers[0][0] == 404, f"{route}: of another tenant {answers[0]}")
                compared += 1
        run.check(await page_through(owner, names["SID"]) == before, "another tenant changed a session")
    run.figure("routes that tell nothing of the other tenant", compared)


def _another(name: str) -> str:
    """A name of the same length that nobody has."""
    return name[:-6] + "".join(random.choices("bcdfg", k=6))


async def _heard(server: Server, route: Route, names: dict[str, str], authorization: str) -> tuple[int, str]:
    path, body = route.at(names)
    answer = await ask(server.port, route.method, path, body, authorization, stream=route.stream, headers=route.headers)
    headers = {name: value for name, value in answer.headers.items() if name not in _PASSING}
    text = json.dumps(headers) + answer.body.decode()
    for word, name in names.items():  # the ids that were asked for may be told back
        text = text.replace(name, word)
    return answer.status, text


async def nothing_is_listed(run: Run, server: Server, keys: Keys, names: dict[str, str]) -> None:
    """Lists, inbox, feed, cursors, metrics: no word of the other tenant, and no movement with it."""
    port, stranger, mine = server.port, keys.texts[NEWCOMER, "all"], keys.texts["acme", "all"]
    async with Client(port, key=stranger) as client, Client(port, key=mine) as owner:
        await client.insist("POST", "/v1/sessions", {"session_id": "of-the-newcomer"})
        for path in ("/v1/sessions", "/v1/calls", "/v1/calls?status=EXECUTED", "/metrics", "/readyz"):
            text = (await client.request("GET", path)).body.decode()
            run.check(names["SID"] not in text and "acme" not in text, f"{path} tells a newcomer of acme: {text[:300]}")
        run.check((await client.request("GET", "/v1/calls")).json()["total"] == 0, "the inbox counts another tenant's")
        first = await _feed(port, stranger)
        for n in range(5):
            await owner.insist(
                "POST", f"/v1/sessions/{names['SID']}/events", {"type": "secret.thing", "data": {"n": n}}
            )
        again = await _feed(port, stranger)
        shown = [{k: v for k, v in line.items() if k != "cursor"} for line in again]
        run.check(all(line["session_id"] == "of-the-newcomer" for line in again), f"its feed shows {shown}")
        lengths = {len(line["cursor"]) for line in first + again}
        run.check(len(lengths) == 1, f"cursors grow with what acme does: {sorted(lengths)} characters")
        theirs = (await _feed(port, mine))[-1]["cursor"]
        answer = await ask(port, "GET", f"/v1/stream?cursor={theirs}", None, f"Bearer {stranger}", stream=True)
        run.check(answer.status == 400, f"a cursor of another tenant: {answer}")
        listed = (await owner.request("GET", "/v1/sessions?limit=1")).json()["next_cursor"]
        if listed:
            answer = await client.request("GET", f"/v1/sessions?limit=1&cursor={listed}")
            run.check(answer.status == 400, f"a list's cursor of another tenant: {answer}")


async def _feed(port: int, key: str) -> list[dict[str, Any]]:
    """What the feed of all sessions shows from the beginning, until it is silent."""
    got, now = list[dict[str, Any]](), asyncio.get_running_loop().time
    async with opened(port, "/v1/stream", {"Authorization": f"Bearer {key}"}, limit_s=20) as (_, reader):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENT_S) as silence:
                async for lines in stream_lines(reader):
                    got += [json.loads(line) for line in lines if line.startswith(b'{"session_id"')]
                    silence.reschedule(now() + SILENT_S)
    return got


async def retries_are_ones_own(run: Run, server: Server, keys: Keys) -> None:
    """One Idempotency-Key of two principals is two requests."""
    headers = {"Idempotency-Key": "the-same-key"}
    answers = list[Answer]()
    for tenant in ("acme", "bolt"):
        authorization = f"Bearer {keys.texts[tenant, 'all']}"
        answers.append(await ask(server.port, "POST", "/v1/sessions", {}, authorization, headers=headers))
    told = [answer.json().get("session_id") for answer in answers]
    run.check(told[0] != told[1] and all(a.status == 201 for a in answers), f"one key, two tenants: {answers[1]}")


async def a_lookup_takes_the_same_road(run: Run, server: Server, keys: Keys, names: dict[str, str]) -> None:
    """Of another tenant's session and of none: the same commands at the engine. The time is told beside it."""
    other, nobody = f"/v1/sessions/{names['SID']}", f"/v1/sessions/{_another(names['SID'])}"
    times: dict[str, list[float]] = {other: [], nobody: []}
    with redis.from_url(server.engine_url) as engine:
        async with server.client(keys.texts["bolt", "all"]) as client:
            sent = {path: await _commands(engine, client, path) for path in times}
            for _ in range(run.pick(quick=300, full=5000, mutated=50)):
                for path in random.sample(list(times), 2):
                    began = time.perf_counter()
                    await client.request("GET", path)
                    times[path].append(time.perf_counter() - began)
    run.check(
        sent[other] == sent[nobody], f"commands at the engine: {sent[other]} for another's, {sent[nobody]} for none"
    )
    ratio = statistics.median(times[other]) / statistics.median(times[nobody])
    # No judge: what the engine is asked tells them apart for certain, and time on a busy machine does not.
    run.figure("time of a lookup, another tenant's to nobody's (medians)", f"{ratio:.3f}")


async def _commands(engine: EngineClient, client: Client, path: str) -> str:
    """What one lookup costs at the engine: as it is most often, since other work goes on there."""
    seen = Counter[str]()
    for _ in range(25):
        before = _calls(engine)
        await client.request("GET", path)
        cost = {name: calls - before.get(name, 0) for name, calls in _calls(engine).items()}
        seen[json.dumps({name: calls for name, calls in sorted(cost.items()) if calls})] += 1
    return seen.most_common(1)[0][0]


def _calls(engine: EngineClient) -> dict[str, int]:
    counted = ("evalsha", "hgetall", "hmget", "hget", "xrange", "xrevrange", "get", "exists")
    stats = engine.info("commandstats")
    return {name: about["calls"] for name, about in stats.items() if name.removeprefix("cmdstat_") in counted}
