"""What the example says on the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from examples.approve_transfer.layby_client import Call, Claim

Say = Callable[[str], None]


def line(label: str, text: str) -> str:
    return f"{label:<10}{text}"


def signature(tool_name: str, arguments: dict[str, Any]) -> str:
    shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{tool_name}({shown})"


def waiting(call: Call) -> str:
    deadline = f"{call.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{line('Waiting', signature(call.tool_name, call.tool_args))}\n{line('', f'to be decided by {deadline}')}"


def decided(call: Call) -> str:
    match call.status, call.decision:
        case "EXPIRED", _:
            return line("Expired", "nobody decided in time")
        case _, None:
            return line("Decided", call.status)
        case _, decision:
            verb = {"approve": "approved", "reject": "rejected"}.get(decision.action, decision.action)
            edited = f" as {signature(call.tool_name, decision.edited_args)}" if decision.edited_args else ""
            note = f": {decision.note}" if decision.note else ""
            return line("Decided", f"{verb} by {decision.by}{edited}{note}")


def claimed(claim: Claim, owner: str) -> str:
    return line("Claimed", f"attempt {claim.attempt} by {owner}, until {claim.lease_until:%H:%M:%S} UTC")


@dataclass(frozen=True)
class Commands:
    """Commands that work when they are pasted into a shell."""

    url: str
    with_key: bool

    def decide(self, call: Call) -> str:
        # With the digest, Layby refuses a decision on other arguments than those that are on this screen.
        seen = {"args_digest": call.args_digest}
        less = {**call.tool_args, "amount": f"{max(Decimal(call.tool_args['amount']) / 2, Decimal('0.01')):.2f}"}
        return "\n\n".join(
            [
                "Decide with one of these:",
                self._post(call, "decision", {"action": "approve", **seen}, "approve"),
                self._post(call, "decision", {"action": "approve", "edited_args": less, **seen}, "approve less"),
                self._post(call, "decision", {"action": "reject", "note": "Not this month.", **seen}, "reject"),
            ]
        )

    def settle(self, call: Call, found: dict[str, str] | None) -> str:
        """What a person does about a call of which nobody knows whether it ran; `found` is its line in the ledger."""
        arguments = (call.decision and call.decision.edited_args) or call.tool_args
        result = found or {"reference": call.reference, **arguments}
        ran = {"outcome": "executed", "result": result, "note": "The bank has it."}
        did_not = {"outcome": "not_executed", "note": "The bank does not have it."}
        told = (
            [
                f"The ledger has it under {call.reference}, so it ran. Say so:",
                self._post(call, "settle", ran, "it ran"),
            ]
            if found
            else [
                f"The ledger here has nothing under {call.reference}.\nAsk the bank, then say what you found:",
                self._post(call, "settle", ran, "it ran"),
                self._post(call, "settle", did_not, "it did not run: the next resume runs it"),
            ]
        )
        outset = (
            f"Outcome unknown: {signature(call.tool_name, arguments)} was begun, and no result was recorded.\n"
            "It may have run, so it is not run again until a person has looked."
        )
        return "\n\n".join([outset, *told, "Then run resume again."])

    def resume(self, session_id: str) -> str:
        command = f"python -m examples.approve_transfer resume --url {self.url} --session {shlex.quote(session_id)}"
        return f"Then carry on, here or on another machine:\n\n  {command}"

    def _post(self, call: Call, verb: str, body: dict[str, Any], title: str) -> str:
        path = f"/v1/sessions/{quote(call.session_id, safe='')}/calls/{quote(call.interrupt_id, safe='')}/{verb}"
        # Where keys are in use, the key says who decides, and it is not the agent's; to settle takes an admin's. An
        # open development server believes the header.
        key = "ADMIN_KEY" if verb == "settle" else "REVIEWER_KEY"
        who = f"Authorization: Bearer ${key}" if self.with_key else "Layby-Actor: ${USER:-reviewer}"
        lines = [
            f"  # {title}",
            f"  curl -sS -w '\\n' {shlex.quote(self.url + path)} \\",
            f"""    -H 'Content-Type: application/json' -H "{who}" \\""",
            f"    -d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
        ]
        return "\n".join(lines)
