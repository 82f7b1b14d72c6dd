"""Steps that are over, where publishers name them: a completed step is never reopened.

The head holds what is open. What has been completed has a record of its own, beside those of the calls, and is loaded
by name as they are, so that neither the head nor the work grows with the steps of a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventstore.domain.values.field_types import NAME_MAX

_SPELLINGS = ("step_id", "stepId")


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """The step that was completed at this seq."""

    seq: int


def record_name(step_id: str) -> str:
    """What its record is called. No call is called so: an interrupt_id has no slash."""
    return f"/{step_id}"


def may_name(data: dict[str, Any]) -> list[str]:
    """The records of the steps that such data may name, in any spelling; nothing is checked yet."""
    values = (data.get(name) for name in _SPELLINGS)
    return [record_name(value) for value in values if isinstance(value, str) and len(value) <= NAME_MAX]


def to_record(step: FinishedStep) -> dict[str, Any]:
    return {"completed_seq": step.seq}


def from_record(record: dict[str, Any]) -> FinishedStep | None:
    """None for the record of a call."""
    return FinishedStep(record["completed_seq"]) if "completed_seq" in record else None
