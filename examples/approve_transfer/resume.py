"""Any later process: picks a session up from Layby alone, and carries it on to its end.

Nothing is done before the log was asked whether it has been done. The one thing that no log can make safe to repeat
is the tool itself. There Layby's claim decides: it is given once, and if its holder vanishes, nobody runs the tool
again until a person has said what happened.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_ai import DeferredToolResults, ToolApproved, ToolDenied, ToolFailed

from examples.approve_transfer import screen
from examples.approve_transfer.agent import agent
from examples.approve_transfer.bank import Bank
from examples.approve_transfer.claimed import Claimed, RecordsResults
from examples.approve_transfer.layby_client import LONGEST_WAIT_MS, Call, Layby, Refused
from examples.approve_transfer.record import Action, Log, read_log, record_step

_LOOK_AGAIN_S: Final = 0.5


class NothingAsked(Exception):
    """The first process did not get as far as asking for anything."""


class Undecided(Exception):
    """We were told to wait no longer."""

    def __init__(self, call: Call) -> None:
        super().__init__("nobody has decided yet")
        self.call = call


class OutcomeUnknown(Exception):
    """The tool was started, and nobody knows how far it came. A person must look."""

    def __init__(self, call: Call) -> None:
        super().__init__("it is not known whether the tool ran")
        self.call = call


@dataclass(frozen=True)
class Options:
    lease_ms: int
    wait_ms: int | None


@dataclass
class Resolved:
    """What each call came to: what the model is told, and the claims on tools that are to run now."""

    results: DeferredToolResults = field(default_factory=DeferredToolResults)
    claims: dict[str, Claimed] = field(default_factory=dict[str, Claimed])


async def resume(layby: Layby, bank: Bank, session_id: str, options: Options, say: screen.Say) -> Log:
    session = await layby.session(session_id)
    say(screen.line("Session", f"{session_id}, {session.status}, {session.seq} events"))
    log = await read_log(layby, session_id)
    while not log.ended:
        if not log.actions:
            raise NothingAsked(f"session {session_id} has asked for nothing yet: run `start` again with this --session")
        resolved = await _Resolver(layby, session_id, options, say).resolve(log.actions)
        run = await agent.run(
            message_history=log.history,
            deferred_tool_results=resolved.results,
            deps=bank,
            capabilities=[RecordsResults(layby, resolved.claims, say)],
        )
        log = await record_step(layby, session, log, run, expires_in_ms=None)
    say(screen.line("Model", log.said or ""))
    say(screen.line("Ended", log.ended))
    return log


@dataclass
class _Resolver:
    layby: Layby
    session_id: str
    options: Options
    say: screen.Say
    # New for each process: a claim made again by its own owner is a renewal, so a process that used the name of
    # its dead predecessor would be let in to run the tool a second time.
    owner: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}")

    async def resolve(self, actions: Sequence[Action]) -> Resolved:
        # Every decision is awaited before the first claim, so no lease runs out while a person thinks.
        calls = [(action, await self._decided(action)) for action in actions]
        resolved = Resolved()
        for action, call in calls:
            await self._resolve(action.tool_call_id, call, resolved)
        return resolved

    async def _decided(self, action: Action) -> Call:
        call = await self._look(action.interrupt_id)
        give_up = None if self.options.wait_ms is None else time.monotonic() + self.options.wait_ms / 1000
        if call.status == "PENDING_APPROVAL":
            self.say(screen.waiting(call))
        while call.status == "PENDING_APPROVAL":
            left_ms = LONGEST_WAIT_MS if give_up is None else int((give_up - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise Undecided(call)
            call = await self._look(action.interrupt_id, wait_ms=min(left_ms, LONGEST_WAIT_MS))
        self.say(screen.decided(call))
        return call

    async def _resolve(self, tool_call_id: str, call: Call, resolved: Resolved) -> None:
        results = resolved.results
        claimed = None
        while call.status == "APPROVED_EXECUTING" and not claimed:
            claimed = await self._claim(call)
            call = call if claimed else await self._look(call.interrupt_id)
        if claimed:
            resolved.claims[tool_call_id] = claimed
            results.approvals[tool_call_id] = ToolApproved(override_args=claimed.claim.args)
            results.metadata[tool_call_id] = {"reference": call.reference}
        elif call.status == "EXECUTED":
            # An earlier process ran it, or a person said so: the model gets that result, and the tool rests.
            self.say(screen.line("Result", "recorded before, the tool is not run again"))
            results.calls[tool_call_id] = _result(call)
        else:
            results.approvals[tool_call_id] = ToolDenied(_denial(call))

    async def _claim(self, call: Call) -> Claimed | None:
        """None means that another process holds it, or is done with it: look again."""
        try:
            claim = await self.layby.claim(call, owner=self.owner, lease_ms=self.options.lease_ms)
        except Refused as refused:
            if refused.slug == "outcome-unknown":
                raise OutcomeUnknown(call) from None
            if refused.slug == "already-claimed":
                self.say(screen.line("Busy", "another process holds the claim, or died with it: waiting"))
                await self._until_free(call)
            elif refused.slug not in {"result-already-recorded", "not-approved"}:
                raise
            return None
        self.say(screen.claimed(claim, self.owner))
        return Claimed(call, claim)

    async def _until_free(self, call: Call) -> None:
        while call.execution and call.execution.state == "claimed":
            await asyncio.sleep(_LOOK_AGAIN_S)
            call = await self._look(call.interrupt_id)

    async def _look(self, interrupt_id: str, *, wait_ms: int = 0) -> Call:
        return await self.layby.call(self.session_id, interrupt_id, wait_ms=wait_ms)


def _result(call: Call) -> object:
    if call.is_error:
        return ToolFailed(str(call.result))
    return {"executed": True} if call.result is None else call.result


def _denial(call: Call) -> str:
    if call.status == "EXPIRED":
        return "Nobody approved it in time."
    if not call.decision:
        return "It was not approved."
    reason = call.decision.note or call.decision.reason
    return f"It was rejected by {call.decision.by}{f': {reason}' if reason else '.'}"
