"""The first process: hears the request, lets the model think, asks for what needs an approval, and goes."""

from __future__ import annotations

from examples.approve_transfer import screen
from examples.approve_transfer.agent import agent
from examples.approve_transfer.bank import Bank
from examples.approve_transfer.layby_client import Layby, Refused
from examples.approve_transfer.record import Log, read_log, record_step, record_turn


class AnotherMessage(Exception):
    """A session of this name exists, and is about something else."""


async def start(layby: Layby, bank: Bank, session_id: str, message: str, expires_in_ms: int, say: screen.Say) -> Log:
    """Each thing is looked up in the log before it is done, so start may be repeated after any interruption."""
    log = await _open(layby, session_id, message)
    session = await layby.session(session_id)
    if not log.turn_started:
        await record_turn(layby, session_id)
    if not log.steps:
        run = await agent.run(log.prompt, deps=bank)
        log = await record_step(layby, session, log, run, expires_in_ms)
    say(screen.line("Session", session_id))
    say(screen.line("Asked", log.prompt))
    say(screen.line("Model", log.said or ""))
    return log


async def _open(layby: Layby, session_id: str, message: str) -> Log:
    try:
        await layby.create(session_id, agent=agent.name or "", message=message)
    except Refused as refused:
        if refused.slug not in {"session-exists", "idempotency-key-reused"}:
            raise
    log = await read_log(layby, session_id)
    if log.prompt != message:
        raise AnotherMessage(f"session {session_id} exists, and its message is “{log.prompt}”")
    return log
