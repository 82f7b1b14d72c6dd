"""A stand-in for a bank: a file with one line for each transfer that was made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path


class BankUnreachable(Exception):
    """No transfer was begun, so the approval for it is not used up."""


@dataclass(frozen=True)
class Bank:
    ledger: Path

    def transfer(self, to: str, amount: Decimal, reference: str) -> dict[str, str]:
        """Move the money. Deliberately naive: a second call with the same reference would pay again.

        A real bank takes the reference as its idempotency key. This one does not, so that its ledger shows
        whether the tool ran more than once.
        """
        entry = {"reference": reference, "to": to, "amount": f"{amount:.2f}"}
        try:
            ledger = self.ledger.open("a", encoding="utf-8")
        except OSError as error:
            raise BankUnreachable(f"{self.ledger}: {error.strerror}") from error
        with ledger:
            ledger.write(json.dumps(entry) + "\n")
        return entry

    def find(self, reference: str) -> dict[str, str] | None:
        """The transfer made under this reference, if there is one."""
        if not self.ledger.is_file():
            return None
        entries = [json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines()]
        return next((entry for entry in entries if entry["reference"] == reference), None)
