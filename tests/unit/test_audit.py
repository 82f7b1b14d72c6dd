"""The judge of logs: it lets pass what a client was told, and names whatever is lost, doubled or made up."""

from __future__ import annotations

from typing import Any

import pytest

from proofs.audit import misfits
from proofs.workload import Journal


def log(*events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"seq": seq, "type": kind, "data": data} for seq, (kind, data) in enumerate(events, 1)]


def note(number: int) -> tuple[str, dict[str, Any]]:
    return ("note.taken", {"n": number})


def of_call(kind: str) -> tuple[str, dict[str, Any]]:
    return (kind, {"interrupt_id": "c"})


STARTED = ("session.started", {})
ASKED = of_call("input.requested")
TOLD = Journal(notes={7: 2}, calls={"c": {"deadline": "later", "decided": 4, "attempt": 1, "result": 6}})
WHOLE = log(STARTED, note(7), ASKED, of_call("input.completed"), of_call("action.claimed"), of_call("action.result"))


def test_what_was_told_passes() -> None:
    assert list(misfits(TOLD, WHOLE)) == []


def test_a_call_that_expired_by_itself_passes() -> None:
    journal = Journal(calls={"c": {"deadline": "soon"}})
    assert list(misfits(journal, log(STARTED, ASKED, of_call("input.expired")))) == []


@pytest.mark.parametrize(
    ("stored", "word"),
    [
        (WHOLE[:3] + WHOLE[4:], "not dense"),
        (log(STARTED, note(7), note(7)), "more than once"),
        (log(STARTED), "not stored"),
        (log(STARTED, STARTED, note(7)), "not stored"),
        (log(STARTED, note(7), note(8)), "nobody was told"),
        (log(STARTED, note(7)), "not asked once"),
        (log(STARTED, note(7), ASKED, of_call("input.completed"), of_call("input.expired")), "more than one outcome"),
        (log(STARTED, note(7), ASKED, STARTED, of_call("input.completed")), "decided elsewhere"),
        (log(STARTED, note(7), ASKED, of_call("input.completed")), "claimed otherwise"),
        ([*WHOLE, {**WHOLE[-1], "seq": 7}], "another result"),
        (log(STARTED, note(7), ASKED, of_call("input.completed"), of_call("action.claimed")), "another result"),
    ],
)
def test_whatever_is_lost_or_doubled_or_made_up_is_named(stored: list[dict[str, Any]], word: str) -> None:
    assert any(word in misfit for misfit in misfits(TOLD, stored))
