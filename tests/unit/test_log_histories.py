"""The judge of logs: each fault that a log could have is found, and a good log has none."""

from __future__ import annotations

from typing import Any

import pytest

from proofs.histories.call import Claim, Heard
from proofs.histories.linearizability import NEVER, Operation
from proofs.histories.logs import (
    MARKED,
    Append,
    Deed,
    Event,
    Late,
    Seen,
    Told,
    append_faults,
    deadline_faults,
    deed_faults,
    faults,
    follower_faults,
    half_seen_faults,
    instant,
    real_time_faults,
)
from proofs.histories.register import Register
from proofs.histories.witness import ANYONE, Done, History

START = 1_800_000_000_000


def log(*events: tuple[str, int, dict[str, Any]], by: str = "ann") -> list[Event]:
    """Events as a log holds them; times in ms since the start."""
    return [
        {"seq": number, "type": kind, "time": instant(START + time), "by": by, "data": data}
        for number, (kind, time, data) in enumerate(events, 1)
    ]


def marked(request: int, place: int = 0) -> tuple[str, int, dict[str, Any]]:
    return MARKED, 5, {"request": request, "place": place}


def asked(until: int) -> tuple[str, int, dict[str, Any]]:
    return "input.requested", 5, {"interrupt_id": "c", "expires_at": instant(START + until)}


def completed(time: int) -> tuple[str, int, dict[str, Any]]:
    return "input.completed", time, {"interrupt_id": "c", "action": "approve"}


def expired(time: int) -> tuple[str, int, dict[str, Any]]:
    return "input.expired", time, {"interrupt_id": "c"}


STARTED = ("session.started", 0, dict[str, Any]())
REFUSED = ("input.refused", 60, {"interrupt_id": "c"})


def told() -> Told:
    return Told(
        appends=[
            Append(1, 2, "acknowledged", 10, 20, first_seq=2, last_seq=3),
            Append(2, 1, "refused", 21, 22),
            Append(3, 2, "unknown", 23),
        ],
        deeds=[
            Deed("input.requested", {"interrupt_id": "c"}, "ann", certain=True, invoked=30, answered=40, seq=4),
            Deed("input.completed", {"interrupt_id": "c"}, "ann", certain=False, invoked=50),
        ],
        seen=[Seen(3, 24, 29), Seen(4, 41, 45)],
        late={"c": Late("c", told=1)},
    )


GOOD = log(STARTED, marked(1), marked(1, 1), asked(50), expired(50), REFUSED)


def test_a_log_that_is_as_its_clients_were_told_has_no_fault() -> None:
    assert list(faults(GOOD, told(), {5: START + 55})) == []


def test_what_nobody_knows_of_may_be_there_as_a_whole() -> None:
    longer = log(STARTED, marked(1), marked(1, 1), asked(50), marked(3), marked(3, 1), expired(50), REFUSED)
    assert list(faults(longer, told(), {})) == []


def _without(seq: int) -> list[Event]:
    return [event for event in GOOD if event["seq"] != seq]


FAULTY: dict[str, tuple[list[Event], str]] = {
    "a gap": (_without(5), "has seq"),
    "a number given out twice": ([*GOOD[:3], GOOD[2], *GOOD[3:]], "has seq"),
    "time that goes back": ([*GOOD[:5], log(*[("a.b", 9, {})] * 6)[5]], "time goes back"),
    "two starts": ([*GOOD, log(*[STARTED] * 7)[6]], "start"),
    "an acknowledged batch that lacks an event": (log(STARTED, marked(1), asked(50)), "was acknowledged"),
    "an acknowledged event twice": (log(STARTED, marked(1), marked(1, 1), asked(50), marked(1)), "was acknowledged"),
    "a batch in another order": (log(STARTED, marked(1, 1), marked(1)), "was acknowledged"),
    "a refused event": (log(STARTED, marked(1), marked(1, 1), marked(2)), "was refused"),
    "half of an unknown batch": (log(STARTED, marked(1), marked(1, 1), marked(3)), "in part"),
    "an event of nobody": (log(STARTED, marked(1), marked(1, 1), marked(9)), "nobody sent"),
    "a request for a decision that is gone": (log(STARTED, marked(1), marked(1, 1)), "told was"),
    "a claim of nobody": ([*GOOD, log(*[("action.claimed", 70, {"interrupt_id": "c"})] * 7)[6]], "nobody was told"),
    "a late decision without a trace": (GOOD[:5], "left a trace"),
    "more traces than late decisions": ([*GOOD, log(*[REFUSED] * 7)[6]], "left a trace"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_of_a_log_is_found(name: str) -> None:
    events, words = FAULTY[name]
    assert any(words in fault for fault in faults(events, told(), {}))


DEADLINES: dict[str, tuple[list[Event], dict[int, int], str]] = {
    "decided at the deadline": (log(STARTED, asked(50), completed(50)), {}, "was decided at"),
    "committed after the deadline": (log(STARTED, asked(50), completed(49)), {3: START + 51}, "was decided at"),
    "expired too early": (log(STARTED, asked(50), expired(49)), {}, "before its deadline"),
    "two outcomes": (log(STARTED, asked(50), completed(20), expired(50)), {}, "two outcomes"),
    "something before an expiry that was due": (log(asked(50), ("a.b", 50, {}), expired(50)), {}, "stands before"),
    "asked twice": (log(STARTED, asked(50), asked(50)), {}, "asked twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEADLINES)
def test_an_outcome_on_the_wrong_side_of_its_deadline_is_found(name: str) -> None:
    events, committed, words = DEADLINES[name]
    assert any(words in fault for fault in deadline_faults(events, committed))


def _append(request: int, seq: int, invoked: int, answered: int, count: int = 1) -> Append:
    return Append(request, count, "acknowledged", invoked, answered, seq, seq + count - 1)


ORDERS: dict[str, tuple[Told, bool]] = {
    "at once, in either order": (Told(appends=[_append(1, 3, 0, 10), _append(2, 2, 5, 9)]), True),
    "one after another": (Told(appends=[_append(1, 2, 0, 3), _append(2, 3, 5, 9)]), True),
    "the later stands first": (Told(appends=[_append(1, 3, 0, 3), _append(2, 2, 5, 9)]), False),
    "the later stands first, and was never answered": (Told([_append(1, 3, 0, 3), _append(2, 2, 5, NEVER)]), False),
    "a read that lacks what was acknowledged": (Told([_append(1, 3, 0, 3)], seen=[Seen(2, 5, 9)]), False),
    "a read that shows what was not sent yet": (Told([_append(1, 3, 6, 9)], seen=[Seen(3, 2, 5)]), False),
    "a read that shows what was being sent": (Told([_append(1, 3, 4, 9)], seen=[Seen(3, 2, 5)]), True),
    "reads that go back": (Told(seen=[Seen(3, 0, 2), Seen(2, 5, 9)]), False),
    "reads of the same": (Told(seen=[Seen(3, 0, 2), Seen(3, 5, 9)]), True),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_a_log_is_held_against_real_time(name: str) -> None:
    known, good = ORDERS[name]
    assert (list(real_time_faults(known)) == []) is good


def test_a_claim_whose_answer_nobody_heard_may_be_the_one_that_a_later_one_renewed() -> None:
    claim, granted = Claim("ann"), Heard("granted", attempt=1, until=instant(START))
    renewed: Done = Operation(claim, granted, 50, 60)
    cases: list[tuple[list[Done], int]] = [
        ([Operation(claim, None, 10, NEVER)], 0),
        ([Operation(Claim("bob"), None, 10, NEVER)], 1),
        ([], 1),
    ]
    for others, faults_found in cases:
        call = History("c", Register(), [*others, renewed])
        known = Told([_append(1, 3, 30, 40)], list(call.deeds()))
        events = log(STARTED, ("action.claimed", 5, {"interrupt_id": "c", "owner": "ann", "attempt": 1}), marked(1))
        assert list(deed_faults([event | {"by": ANYONE} for event in events], known.deeds)) == []
        assert len(list(real_time_faults(known))) == faults_found


def test_a_read_that_ends_within_a_batch_is_found() -> None:
    batch = _append(1, 2, 0, 3, count=3)
    assert [len(list(half_seen_faults(Told([batch], seen=[Seen(seq, 0, 9)])))) for seq in range(1, 6)] == [
        0,
        1,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(("after", "found"), [(1, 0), (0, 1)])
def test_an_append_that_demanded_a_version_stands_right_behind_it(after: int, found: int) -> None:
    one = Append(1, 1, "acknowledged", 0, 3, 2, 2, after=after)
    assert len(list(append_faults(log(STARTED, marked(1)), [one]))) == found


A, B, END, LATE = (b'{"type":"%b"}' % kind for kind in (b"a.a", b"b.b", b"session.failed", b"action.lapsed"))


@pytest.mark.parametrize("got", [[A], [A, END], [A, B, B], [A, B, END, A], [B, A, END], [A, B]])
def test_a_follower_that_got_something_else_than_the_log_is_found(got: list[bytes]) -> None:
    assert list(follower_faults([A, B, END], got))
    assert not list(follower_faults(got, got))


def test_a_follower_may_end_where_the_session_does() -> None:
    assert not list(follower_faults([A, END, LATE], [A, END]))
    assert list(follower_faults([A, END, B], [A, END]))
    assert list(follower_faults([A, B, LATE], [A, B]))
