"""The append-only file, cut at every byte of a commit: what an engine loads is the state before it, or after it.

The file is written by the event store, one commit after another; how long it was when each was acknowledged is where
that commit begins and ends. Copies of it are cut and loaded: by one engine that loads again and again (`DEBUG
LOADAOF`, the code of a start), and some of them by an engine that starts on the copy; there each client then repeats
its request.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.exceptions import ResponseError

from eventstore.commit.batch import Retry
from eventstore.domain.commands import (
    Actor,
    ClaimCall,
    Command,
    CreateSession,
    DecideCall,
    NewEvent,
    Publish,
    RecordResult,
)
from eventstore.event_store import EventStore
from proofs.engines import Engine
from proofs.proof import Breach, Run
from proofs.stores import offline

SESSION, TENANT = "cut", "default"
SETTINGS = {"partitions": 1}
BY = Actor("anna")
FILE = "appendonlydir/appendonly.aof.1.incr.aof"
MANIFEST = "appendonlydir/appendonly.aof.manifest"
STATE = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', key).ok, nil
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then value = {redis.call('XRANGE', key, '-', '+'), redis.call('XINFO', 'STREAM', key)[8]}
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  else value = redis.call('DUMP', key) end
  found[#found + 1] = {key, kind, redis.call('PEXPIRETIME', key), value}
end
return found
"""
"""Everything that an engine holds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and its commit in the file: from byte `start` up to `end`."""

    name: str
    command: Command | None
    """None for the deletion of the session."""
    result: Any = None
    start: int = 0
    end: int = 0


def _event(kind: str, **data: object) -> NewEvent:
    return NewEvent(kind, data, None)


def _ask(name: str) -> NewEvent:
    return _event(
        "input.requested", interrupt_id=name, tool_name="pay", tool_args={"for": name}, expires_in_ms=86_400_000
    )


STEPS = (
    Step("create", CreateSession(SESSION, agent="cutter", message="hello")),
    Step("batch", Publish([_event("turn.started"), *(_event("note.taken", n=n) for n in range(3))])),
    Step("ask", Publish([_ask("c1"), _ask("c2")])),
    Step("decide", DecideCall("c1", "approve")),
    Step("claim", ClaimCall("c1", "worker", 3_600_000)),  # no lease may end while the file is cut
    Step("result", RecordResult("c1", {"paid": True}, 1)),
    Step("end", Publish([_event("session.completed")])),
    Step("delete", None),
)
"""`end` retires the call that still waits, and removes its marker."""


class Cuts:
    """Writes the file once, then cuts it."""

    def __init__(self, run: Run, folder: Path, binary: str | Path | None = None) -> None:
        self._run, self._folder, self._binary = run, folder, binary
        self._bytes = b""
        self._states: list[Any] = []
        self._steps: list[Step] = []
        self.loads = self.starts = 0

    async def write(self) -> None:
        """Carry every step out, and note what the engine holds after each, and how long its file is."""
        with Engine(self._folder / "written", binary=self._binary) as engine:
            file = engine.folder / FILE
            async with offline(engine.url, SETTINGS) as (_, store):
                self._states.append(_state(engine))
                for step in STEPS:
                    start = file.stat().st_size
                    result = await _carry_out(store, step)
                    self._steps.append(Step(step.name, step.command, result, start, file.stat().st_size))
                    self._states.append(_state(engine))
            self._bytes = file.read_bytes()
        self._run.check(self._steps[-1].end == len(self._bytes), "the file grew after the last answer")

    def load_each(self, every: int, tell: Callable[[str], None] = lambda _: None) -> None:
        """Load the file cut at every so many bytes of each commit, and at its ends. Raises `Breach`."""
        with self._engine_on("loaded", 0, enable_debug_command="local") as engine:
            for number, step in enumerate(self._steps):
                for size in sorted({step.start, *range(step.start + 1, step.end, every), step.end - 1, step.end}):
                    self._load(engine, self._bytes[:size])
                    self._judge(engine, number, size)
                    self.loads += 1
                    if self.loads % 500 == 0:
                        tell(f"append-only file cut {self.loads:,} times")

    def _load(self, engine: Engine, file: bytes) -> None:
        """Redis 7.0 ends itself when it is asked to load a file that was cut, but starts on one."""
        if self._binary:
            engine.kill()
        (engine.folder / FILE).write_bytes(file)
        if self._binary:
            engine.start()
        else:
            _load_again(engine)

    async def start_on(self, sizes: list[tuple[int, int]]) -> None:
        """Start an engine on the file, cut so; each client repeats its request then. Pairs of step and size."""
        for number, size in sizes:
            engine = self._engine_on(f"cut-{number}-{size}", size)
            self._mend(engine)
            with engine:
                self._judge(engine, number, size)
                await self._repeat(engine, number, size)
                after = _state(engine)
                engine.kill()
                engine.start()
                again = _state(engine)
            step = self._steps[number].name
            self._run.check(after == again, f"{step}: cut at byte {size} and gone on from there, it loads as another")
            self.starts += 1

    def _mend(self, engine: Engine) -> None:
        """As docs/operations.md asks of those who run Redis: it loads a file that ends within a transaction right, but
        leaves the beginning of that in the file and goes on behind it (seen in 7.0 and 8.0; Valkey does not)."""
        if self._binary:
            command = [Path(self._binary).with_name("redis-check-aof"), "--fix", engine.folder / MANIFEST]
            subprocess.run(command, input=b"y\n", stdout=subprocess.DEVNULL, check=False)

    def places(self, choose: Callable[[range, int], list[int]], count: int) -> list[tuple[int, int]]:
        """So many places in each step, chosen by `choose`."""
        steps = enumerate(self._steps)
        return [(number, size) for number, step in steps for size in choose(range(step.start, step.end), count)]

    def _engine_on(self, name: str, size: int, **options: object) -> Engine:
        """An engine on a copy of the file."""
        folder = self._folder / name
        shutil.copytree(self._folder / "written" / "appendonlydir", folder / "appendonlydir")
        os.truncate(folder / FILE, size)
        return Engine(folder, binary=self._binary, **options)

    def _judge(self, engine: Engine, number: int, size: int) -> None:
        step, found = self._steps[number], _state(engine)
        before, after = self._states[number], self._states[number + 1]
        if found != (after if size == step.end else before):
            known = [other.name for other, state in zip(self._steps, self._states[1:], strict=True) if state == found]
            what = f"the state after {known[0]}" if known else f"a state between: {_difference(found, before, after)}"
            where = f"{size - step.start:,} of its {step.end - step.start:,} bytes"
            raise Breach(f"the append-only file was cut within `{step.name}`, {where} left; loaded was {what}")

    async def _repeat(self, engine: Engine, number: int, size: int) -> None:
        """The request of this commit, sent again, has its effect once."""
        step = self._steps[number]
        async with offline(engine.url, SETTINGS) as (_, store):  # every byte of the file is that of a request
            result = await _carry_out(store, step)
        told = f"{step.name}, cut at byte {size} and repeated, answered {result!r}, and before the cut {step.result!r}"
        self._run.check(_shape(result) == _shape(step.result), told)


async def _carry_out(store: EventStore, step: Step) -> Any:
    if step.command is None:
        return await store.delete(TENANT, SESSION)
    return (await store.execute(TENANT, SESSION, step.command, BY, Retry(f"key of {step.name}", "body"))).result


def _shape(result: Any) -> Any:
    """What two answers to one request must share, whenever they were decided."""
    names = ("seq", "first_seq", "last_seq", "events", "attempt")
    return {name: result[name] for name in names if name in result} if result else None


def _load_again(engine: Engine) -> None:
    try:
        engine.client.execute_command("DEBUG", "LOADAOF")
    except ResponseError as error:  # a file that was cut is loaded, yet told to be short
        if "AOF" not in str(error):
            raise


def _state(engine: Engine) -> dict[str, Any]:
    found: Any = engine.client.eval(STATE, 0)
    return {key: (kind, expires, _sorted(kind, value)) for key, kind, expires, value in found}


def _sorted(kind: str, value: Any) -> Any:
    """The fields of a hash stand in no order."""
    return dict(zip(value[::2], value[1::2], strict=True)) if kind == "hash" else value


def _difference(found: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> str:
    """Which keys are as they were before, and which as after."""
    changed = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    old = [key for key in changed if found.get(key) == before.get(key)]
    new = [key for key in changed if found.get(key) == after.get(key)]
    return f"as before are {old}, as after {new}, neither {sorted({*changed} - {*old} - {*new})}"
