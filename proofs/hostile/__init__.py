"""Whatever is sent to it, a server answers in its own words or closes the connection, and nothing is half written.

First every route as its own document describes it, with requests that fit and requests that do not; then bytes that
are hardly HTTP, or hardly JSON; then lines whose clients break the rules, or send without end and read nothing. One
server and one engine live through all of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from proofs.hostile.broken import MUTATIONS
from proofs.hostile.described import Described
from proofs.hostile.floods import Floods
from proofs.hostile.fuzzing import REST_S, Fuzzing
from proofs.hostile.lines import Lines
from proofs.proof import Proof, Run
from proofs.servers import Server, running


async def prove(run: Run) -> None:
    part, server = run.option("part"), Server(run.folder / "server")
    with running(server):
        born = (server.pid, server.engine_pid)
        if part in ("", "document"):
            described = Described(run, server)
            await asyncio.to_thread(described.prove, run.pick(quick=3, full=60, mutated=10))
            run.figure("requests made from /openapi.json", described.sent)
        if part in ("", "wire"):
            fuzzing = Fuzzing(run, server, run.pick(quick=1_000, full=97_000, mutated=3_000))
            await fuzzing.prove()
            run.figure("hostile requests, of so many kinds", f"{fuzzing.sent:,}, {len(fuzzing.kinds)}")
            run.figure("answered with", _shown(fuzzing.statuses))
        if part in ("", "lines", "floods"):
            await _lines(run, server, part)
        run.check((server.pid, server.engine_pid) == born, "the server or its engine did not live through it")
        await _still_well(run, server)


async def _lines(run: Run, server: Server, part: str) -> None:
    lines = Lines(run, server, run.pick(quick=150, full=10_000, mutated=400))
    if part != "floods":
        await lines.prove()
        run.figure("hostile lines, of so many kinds", f"{lines.said:,}, {len(lines.kinds)}")
        run.figure("closed with", _shown(lines.codes))
    if part != "lines":
        run.progress("lines that read nothing")
        await Floods(run, server, run.pick(quick=1, full=3), run.pick(quick=10, full=100)).prove()
    await asyncio.sleep(REST_S)
    await lines.judge_left()


def _shown(counts: Counter[int]) -> str:
    return ", ".join(f"{what}: {count:,}" for what, count in sorted(counts.items()))


async def _still_well(run: Run, server: Server) -> None:
    assert server.process
    run.check(server.process.poll() is None, "the server has ended")
    verified = await asyncio.to_thread(server.layby, "verify")
    run.check(verified.returncode == 0, f"layby verify says {verified.stdout[-500:]} {verified.stderr[-500:]}")
    told = server.log.read_text()
    run.check("Traceback" not in told, f"the log tells of a fault: {told[-2000:]}")


PROOF = Proof(
    "hostile",
    "Whatever is sent, it is answered as the protocol and /openapi.json say, or the connection is closed; nothing is"
    " half written, nothing of the server breaks, and its memory stays bounded.",
    prove,
    mutations=MUTATIONS,
    limit_s={"quick": 180.0, "full": 2700.0},
)
