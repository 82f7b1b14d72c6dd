"""The agent: plain Pydantic AI, which knows nothing of Layby.

Its model is a function, so that the example runs without a network and without a key. Put any other model in its
place; nothing else changes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import Field
from pydantic_ai import (
    Agent,
    AgentRunResult,
    DeferredToolRequests,
    ModelMessage,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.approve_transfer.bank import Bank

Output = str | DeferredToolRequests
RunResult = AgentRunResult[Output]
Amount = Annotated[Decimal, Field(gt=0, max_digits=12, decimal_places=2)]

_REQUEST: Final = re.compile(r"transfer (?P<amount>\d+(?:\.\d{1,2})?)\b.*? to (?P<to>.+?)\.?$", re.IGNORECASE)


def _answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Stands in for a language model: asks for a transfer, then tells how it went."""
    match messages[-1].parts[-1]:
        case UserPromptPart(content=str(text)) if found := _REQUEST.search(text):
            arguments = {"to": found["to"], "amount": f"{Decimal(found['amount']):.2f}"}
            said = TextPart(f"I will transfer {arguments['amount']} to {arguments['to']}, once somebody approves it.")
            return ModelResponse(parts=[said, ToolCallPart("transfer_funds", arguments, tool_call_id="call_1")])
        case ToolReturnPart() as came:
            return ModelResponse(parts=[TextPart(_tell(came))])
        case _:
            return ModelResponse(parts=[TextPart("I make transfers: try “Transfer 250.00 to acme”.")])


def _tell(came: ToolReturnPart) -> str:
    match came.outcome, came.content:
        case "success", {"amount": amount, "to": to}:
            return f"I transferred {amount} to {to}."
        case "success", _:
            return "The transfer was made."
        case "denied", reason:
            return f"I transferred nothing. {reason}"
        case _, reason:
            return f"The transfer failed: {reason}"


agent: Agent[Bank, Output] = Agent(
    FunctionModel(_answer, model_name="offline"),
    name="approve-transfer",
    deps_type=Bank,
    output_type=[str, DeferredToolRequests],
)


@agent.tool(requires_approval=True)
def transfer_funds(ctx: RunContext[Bank], to: str, amount: Amount) -> dict[str, str]:
    """Transfer money to somebody."""
    assert ctx.tool_call_metadata, "whoever passes an approval on passes a reference with it"
    # The same in every attempt at this call, so a bank that takes it as its idempotency key pays once.
    return ctx.deps.transfer(to, amount, ctx.tool_call_metadata["reference"])
