"""The judge of histories: what can be told in one order passes, and what cannot does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.histories.call import (
    ABSENT,
    APPROVED,
    EXECUTED,
    EXPIRED,
    PENDING,
    REJECTED,
    Ask,
    Asked,
    Call,
    Claim,
    Deadline,
    Decide,
    Decision,
    Heard,
    LeaseEnd,
    Look,
    Record,
    Release,
    SessionEnd,
    Settle,
    View,
)
from proofs.histories.judging import call_faults
from proofs.histories.linearizability import NEVER, Operation, find_order, smallest
from proofs.histories.register import Register

Done = Operation[Asked, Heard]
ANN, BOB = Decision("approve", "ann", "a"), Decision("reject", "bob", "b")


def at(invoked: int, answered: int, asked: Asked, heard: Heard | None = None) -> Done:
    return Operation(asked, heard, invoked, answered)


def ask(invoked: int = 0, answered: int = 1, seq: int = 2) -> Done:
    return at(invoked, answered, Ask("{}"), Heard("applied", seq=seq))


def applied(invoked: int, answered: int, decision: Decision, seq: int = 4) -> Done:
    return at(invoked, answered, Decide(decision), Heard("applied", seq, view=decided(decision)))


def duplicate(invoked: int, answered: int, decision: Decision, seq: int = 4, first: Decision = ANN) -> Done:
    return at(invoked, answered, Decide(decision), Heard("duplicate", seq, view=decided(first)))


def decided(decision: Decision) -> View:
    approved = decision.action == "approve"
    status = APPROVED if approved else REJECTED
    return View("call", status, decision, ("unclaimed", 0, None, None) if approved else None)


def look(invoked: int, answered: int, view: View) -> Done:
    return at(invoked, answered, Look(view.how), Heard("shown", view=view))


def waits(how: str = "call") -> View:
    return View(how, PENDING)


def runs(decision: Decision, attempt: int, owner: str, until: str, how: str = "call") -> View:
    return View(how, APPROVED, decision, ("claimed", attempt, owner, until))


def granted(invoked: int, answered: int, attempt: int, owner: str = "one", until: str = "u1") -> Done:
    view = runs(ANN, attempt, owner, until)
    return at(invoked, answered, Claim(owner), Heard("granted", attempt=attempt, until=until, view=view))


def free(attempt: int) -> View:
    return View("call", APPROVED, ANN, ("unclaimed", attempt, None, None))


def released(invoked: int, answered: int, attempt: int) -> Done:
    return at(invoked, answered, Release(attempt), Heard("applied", 9, view=free(attempt)))


def recorded(invoked: int, answered: int, attempt: int, owner: str) -> Done:
    """A result of attempt 1, taken while `attempt` is the current one."""
    done = View("call", EXECUTED, ANN, ("done", attempt, owner, None), "1")
    return at(invoked, answered, Record(1, "1", False), Heard("applied", 12, view=done))


def holds(*history: Done, idempotent: bool = False) -> bool:
    return find_order(history, Call(), Register(idempotent)).holds


GOOD: dict[str, list[Done]] = {
    "one after another": [ask(), applied(2, 3, ANN), look(4, 5, decided(ANN))],
    "a read at the time of the decision sees it before": [ask(), applied(2, 6, ANN), look(3, 5, waits())],
    "a read at the time of the decision sees it after": [ask(), applied(2, 6, ANN), look(3, 5, decided(ANN))],
    "the same decision again, note aside": [ask(), applied(2, 3, ANN), duplicate(4, 5, replace(ANN, note="again"))],
    "the duplicate is answered first, of two at once": [ask(), applied(2, 6, ANN), duplicate(3, 4, ANN)],
    "an unknown decision took place": [ask(), at(2, NEVER, Decide(ANN)), look(8, 9, decided(ANN))],
    "an unknown decision took place late": [
        ask(), at(2, NEVER, Decide(ANN)), look(4, 5, waits()), look(8, 9, decided(ANN)),
    ],
    "an unknown decision never took place": [ask(), at(2, NEVER, Decide(ANN)), applied(4, 5, BOB)],
    "an unknown request that asked": [at(0, NEVER, Ask("{}")), look(3, 4, waits())],
    "an answer before its deadline": [ask(), applied(2, 4, ANN), at(5, 6, Deadline()), look(7, 8, decided(ANN))],
    "at the deadline either": [ask(), look(4, 8, waits()), at(5, 6, Deadline()), look(7, 8, View("call", EXPIRED))],
    "nothing was asked yet": [at(0, 1, Look("call"), Heard("call-not-found")), ask(2, 3)],
    "retired with its session": [
        ask(), at(3, 4, SessionEnd()), look(5, 6, View("call", REJECTED, Decision("cancel", "layby"))),
    ],
    "claimed, renewed, released and claimed again": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), granted(6, 7, 1, until="u2"),
        released(8, 9, 1),
        granted(10, 11, 2, "two", "u3"),
    ],
    "a snapshot shows the lease as it was claimed": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), granted(6, 7, 1, until="u2"),
        look(8, 9, runs(ANN, 1, "one", "u2")), look(8, 9, runs(ANN, 1, "one", "u1", "snapshot")),
    ],
    "a lease that was renewed does not end": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), granted(6, 7, 1, until="u2"), at(8, 8, LeaseEnd("u1")),
        look(9, 10, runs(ANN, 1, "one", "u2")),
    ],
    "a result once the lease has ended": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), at(8, 8, LeaseEnd("u1")),
        recorded(9, 10, 1, "one"),
    ],
}  # fmt: skip

BAD: dict[str, list[Done]] = {
    "a stale read": [ask(), applied(2, 3, ANN), look(4, 5, waits())],
    "a stale read of a document": [ask(), applied(2, 3, ANN), look(4, 5, waits("document"))],
    "two reads of which the later is older": [
        ask(), applied(2, 9, ANN), look(3, 4, decided(ANN)), look(5, 6, waits()),
    ],
    "two winners": [ask(), applied(2, 5, ANN), applied(3, 6, BOB, 5)],
    "a lost decision": [ask(), applied(2, 3, ANN), applied(4, 5, BOB, 5)],
    "a duplicate before the first was sent": [ask(), duplicate(2, 3, ANN), applied(4, 5, ANN)],
    "a duplicate of somebody else's decision": [ask(), applied(2, 3, ANN), duplicate(4, 5, replace(ANN, by="bob"))],
    "a duplicate with another seq": [ask(), applied(2, 3, ANN), duplicate(4, 5, ANN, 7)],
    "a decision that nobody made": [ask(), look(2, 3, decided(ANN))],
    "an unknown decision that is forgotten": [
        ask(), at(2, NEVER, Decide(ANN)), look(4, 5, decided(ANN)), look(6, 7, waits()),
    ],
    "an unknown decision before it was sent": [ask(), look(2, 3, decided(ANN)), at(4, NEVER, Decide(ANN))],
    "decided after the deadline": [ask(), at(3, 4, Deadline()), applied(5, 6, ANN)],
    "still waiting after the deadline": [ask(), at(3, 4, Deadline()), look(5, 6, waits())],
    "expired before the deadline": [ask(), look(2, 3, View("call", EXPIRED)), at(5, 6, Deadline())],
    "expired, and decided all the same": [
        ask(), look(2, 4, View("call", EXPIRED)), at(3, 4, Deadline()), look(7, 8, decided(ANN)), applied(2, 9, ANN),
    ],
    "asked twice": [ask(), ask(2, 3, seq=6)],
    "two owners of one attempt": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), granted(6, 7, 1, "two", "u2"),
    ],
    "a lease given to another before it ended": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), granted(6, 7, 2, "two", "u2"), at(9, 9, LeaseEnd("u1")),
    ],
    "an attempt that ended in silence is given out again": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1), at(6, 6, LeaseEnd("u1")), granted(7, 8, 2, "two", "u2"),
    ],
    "a result of an older attempt": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1),
        released(6, 7, 1),
        granted(8, 9, 2, "two", "u2"),
        recorded(10, 11, 2, "two"),
    ],
    "settled while it ran": [
        ask(), applied(2, 3, ANN), granted(4, 5, 1),
        at(6, 7, Settle("not_executed", "null"), Heard("applied", 9, view=free(1))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_can_be_told_in_one_order_passes(name: str) -> None:
    assert call_faults("call", GOOD[name], Register())[0] == ""


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_no_order_explains_is_refused(name: str) -> None:
    fault, _ = call_faults("call", BAD[name], Register())
    assert fault.startswith("no order explains")


def test_an_idempotent_call_is_given_out_again_once_its_lease_has_ended() -> None:
    story = [ask(), applied(2, 3, ANN), granted(4, 5, 1), at(6, 6, LeaseEnd("u1")), granted(7, 8, 2, "two", "u2")]
    assert holds(*story, idempotent=True)
    assert not holds(*story)


def test_the_order_that_was_found_is_one_that_respects_real_time() -> None:
    story = [look(3, 5, decided(ANN)), applied(2, 6, ANN), ask(), look(3, 4, waits())]
    found = find_order(story, Call(), Register())
    assert [type(one.asked).__name__ for one in found.order] == ["Ask", "Look", "Decide", "Look"]
    assert found.state.status == APPROVED


def test_a_failure_is_shown_by_as_few_requests_as_it_takes() -> None:
    noise = [look(2, 3, waits()), look(2, 4, waits("document")), at(2, 3, Decide(ANN, view=False), Heard("stale-view"))]
    story = [ask(), *noise, applied(5, 6, ANN), look(7, 8, waits()), look(9, 10, decided(ANN))]
    assert smallest(story, Call(), Register()) == [ask(), applied(5, 6, ANN), look(7, 8, waits())]


def test_many_requests_at_once_are_judged_without_trying_every_order() -> None:
    """Forty readers and a decision, all at the same time: 41! orders, and one that fits is found soon."""
    readers = [look(2, 90, waits() if number % 2 else decided(ANN)) for number in range(40)]
    found = find_order([ask(), applied(2, 90, ANN), *readers], Call(), Register())
    assert found.holds
    assert found.looked_at < 500


def test_many_unknown_outcomes_that_fit_nowhere_are_refused_soon() -> None:
    unknown = [at(2, NEVER, Decide(Decision("approve", f"p{number}", "n"))) for number in range(12)]
    found = find_order([ask(), *unknown, look(3, 4, decided(BOB))], Call(), Register())
    assert not found.holds
    assert found.looked_at < 50_000


def test_before_anything_was_asked_there_is_no_call() -> None:
    assert Call().status == ABSENT
    assert not holds(at(0, 1, Decide(ANN), Heard("applied", 1, view=decided(ANN))))
