"""Between Pydantic AI and Layby: what an approved tool came to is in the log before the model hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_ai import ModelRetry, RunContext, ToolCallPart, ToolDefinition, ToolFailed
from pydantic_ai.capabilities import AbstractCapability, RawToolArgs, ValidatedToolArgs, WrapToolExecuteHandler

from examples.approve_transfer import screen
from examples.approve_transfer.bank import Bank, BankUnreachable
from examples.approve_transfer.layby_client import Call, Claim, Layby


@dataclass(frozen=True)
class Claimed:
    """A call, and our right to run its tool."""

    call: Call
    claim: Claim


@dataclass
class RecordsResults(AbstractCapability[Bank]):
    """Wraps the tools that were claimed. Any other failure than those named here leaves the claim to lapse: who
    cannot tell whether the tool ran must not say so."""

    layby: Layby
    claims: Mapping[str, Claimed]
    say: screen.Say

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Bank],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:
        claimed = self.claims.get(call.tool_call_id)
        if not claimed:
            return await handler(args)
        try:
            result = await handler(args)
        except BankUnreachable:
            await self.layby.release(claimed.call, claimed.claim.attempt)
            raise
        except (ToolFailed, ModelRetry) as failure:
            await self._record(claimed, failure.message, is_error=True)
            raise
        self.say(screen.line("Ran", screen.signature(call.tool_name, claimed.claim.args)))
        await self._record(claimed, result)
        return result

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Bank],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: RawToolArgs,
        error: ValidationError | ModelRetry,
    ) -> ValidatedToolArgs:
        """An approver may edit the arguments into something that the tool cannot take."""
        claimed = self.claims.get(call.tool_call_id)
        if not claimed:
            raise error
        message = error.message if isinstance(error, ModelRetry) else _first(error)
        await self._record(claimed, message, is_error=True)
        raise ToolFailed(message)

    async def _record(self, claimed: Claimed, result: Any, *, is_error: bool = False) -> None:
        await self.layby.record_result(claimed.call, claimed.claim.attempt, result, is_error=is_error)
        self.say(screen.line("Recorded", "the error" if is_error else "the result"))


def _first(error: ValidationError) -> str:
    wrong = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in wrong['loc'])}: {wrong['msg']}"
