"""One example of each body that a client sends, by the name of its schema. Tests hold each against its schema."""

from __future__ import annotations

from typing import Any, Final

_REFUND: Final = {"interrupt_id": "refund-17", "tool_name": "refund", "tool_args": {"order": 17, "amount": 40}}

EXAMPLES: Final[dict[str, Any]] = {
    "CreateSession": {
        "agent": "support",
        "steps": "turn",
        "metadata": {"customer": "c-42"},
        "message": "Refund order 17",
    },
    "SendMessage": {"continuation_token": "q3vn0ts7w6m1x9d2k5b8c4f0gh", "message": "And send an apology"},
    "PublishEvent": {"type": "turn.started", "data": {"turn_id": "turn-1"}},
    "PublishBatch": [
        {"type": "turn.started", "data": {"turn_id": "turn-1"}},
        {"type": "input.requested", "data": {**_REFUND, "message": "May I?", "expires_in_ms": 3_600_000}},
    ],
    "Decide": {"action": "approve", "note": "The order was never shipped"},
    "CompleteAuthorization": {"success": True},
    "Claim": {"owner": "worker-3", "lease_ms": 60_000},
    "Release": {"attempt": 1},
    "Result": {"attempt": 1, "result": {"refund": "rf-981"}},
    "Settle": {"outcome": "executed", "result": {"refund": "rf-981"}, "note": "Seen in the ledger"},
    "ZhinStart": {"message": "Refund order 17"},
    "ZhinContinue": {"continuationToken": "zhin:q3vn0ts7w6m1x9d2k5b8c4f0gh", "message": "And send an apology"},
    "ZhinInput": {"requestId": "refund-17", "approved": True},
    "ZhinComplete": {"success": True},
}
