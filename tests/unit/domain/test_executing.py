"""Running an approved call: claims, leases, fencing, results, settlements."""

from __future__ import annotations

import pytest

from eventstore.domain.commands import (
    Actor,
    CompleteAuthorization,
    ExpireDue,
    RecordResult,
    ReleaseCall,
    SettleCall,
)
from eventstore.domain.errors import (
    AlreadyClaimed,
    CallNotFound,
    Fenced,
    InvalidRequest,
    InvalidSnapshot,
    NotApproved,
    NotIndeterminate,
    OutcomeUnknown,
    ResultAlreadyRecorded,
)
from eventstore.domain.values import timestamps
from tests.unit.domain.given import (
    ANNA,
    DAY,
    NOON,
    Story,
    approve,
    ask,
    claim,
    connect,
    event,
    given,
    question,
    reject,
    respond,
)

WORKER = Actor("svc-worker")
LEASE = 60_000


def result(attempt: int | None = 1, value: object = "done", is_error: bool = False) -> RecordResult:
    return RecordResult("c1", value, attempt, is_error)


def release(attempt: int = 1) -> ReleaseCall:
    return ReleaseCall("c1", attempt)


def settle(outcome: str = "executed", value: object = None) -> SettleCall:
    return SettleCall("c1", outcome, "looked it up", value)


def approved(**asked) -> Story:
    return given(ask(**asked), approve())


def claimed(**asked) -> Story:
    return approved(**asked).has(claim(), by=WORKER)


def lapsed(**asked) -> Story:
    return claimed(**asked).at(NOON + LEASE).has(ExpireDue())


# Claims


def test_a_claim_hands_the_call_out():
    story = (
        approved()
        .when(claim(lease_ms=5_000), by=WORKER)
        .then(
            (
                "action.claimed",
                {"interrupt_id": "c1", "attempt": 1, "owner": "w1", "lease_until": timestamps.text(NOON + 5_000)},
            )
        )
    )
    story.answers(
        attempt=1,
        lease_until=timestamps.text(NOON + 5_000),
        tool_name="refund",
        args={"amount": 100},
        decision=story.call().decision,
    )
    assert story.result["call"]["execution"] == {
        "state": "claimed",
        "attempt": 1,
        "owner": "w1",
        "lease_until": timestamps.text(NOON + 5_000),
    }


@pytest.mark.parametrize("edited", [{"amount": 7}, {}])
def test_a_claim_hands_out_the_edited_arguments(edited):
    given(ask(allow_edits=True), approve(edited_args=edited)).when(claim()).answers(args=edited)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [reject()],
        [event("session.completed")],
    ],
)
@pytest.mark.parametrize("command", [claim(), release(), result(), result(None)])
def test_only_an_approved_call_can_be_run(history, command):
    given(ask(), *history).when(command, by=WORKER).refused(NotApproved)


@pytest.mark.parametrize("command", [claim(), release(), result(), result(None)])
def test_an_expired_or_answered_call_cannot_be_run(command):
    given(ask()).pass_due(NOON + DAY).when(command).refused(NotApproved)
    given(question("c1"), respond("x", "c1")).when(command).refused(NotApproved)
    given(connect("c1"), CompleteAuthorization("c1", True)).when(command).refused(NotApproved)


@pytest.mark.parametrize("command", [claim(), release(), result(), settle()])
def test_a_call_must_be_there_and_sound(command):
    given().when(command).refused(CallNotFound)
    approved().damaged().when(command).refused(InvalidSnapshot)


def test_a_live_lease_keeps_others_out():
    claimed().when(claim(owner="w2"), at=NOON + LEASE - 1).refused(AlreadyClaimed)


def test_the_owner_renews_its_lease_without_an_event():
    story = claimed().when(claim(), at=NOON + 30_000).then()
    story.answers(attempt=1, lease_until=timestamps.text(NOON + 30_000 + LEASE))
    assert story.session.leases == {"c1": NOON + 30_000 + LEASE}
    story.when(claim(owner="w2"), at=NOON + LEASE).refused(AlreadyClaimed)


def test_a_renewed_lease_lapses_at_its_new_time():
    story = claimed().has(claim()).at(NOON + 30_000).has(claim())
    story.pass_due(NOON + 30_000 + LEASE - 1).then()
    story.pass_due(NOON + 30_000 + LEASE).then(("action.lapsed", {"interrupt_id": "c1", "attempt": 1}))


# Leases that pass


def test_a_lease_lapses_exactly_at_its_time():
    claimed().pass_due(NOON + LEASE - 1).then()
    story = claimed().pass_due(NOON + LEASE).then(("action.lapsed", {"interrupt_id": "c1", "attempt": 1}))
    assert story.events[0].by == "layby"
    assert story.session.leases == {}


def test_a_lease_lapses_once():
    lapsed().when(ExpireDue(), at=NOON + DAY).then()


@pytest.mark.parametrize("owner", ["w1", "w2"])
def test_a_lapsed_call_has_an_unknown_outcome(owner):
    story = lapsed().when(claim(owner=owner)).refused(OutcomeUnknown)
    execution = story.call().execution
    assert execution and execution.state == "indeterminate"


@pytest.mark.parametrize("owner", ["w1", "w2"])
def test_a_lapsed_idempotent_call_is_handed_out_anew(owner):
    lapsed(idempotent=True).when(claim(owner=owner)).then(("action.claimed", {"attempt": 2, "owner": owner}))


@pytest.mark.parametrize("owner", ["w1", "w2"])
def test_a_claim_that_meets_a_passed_lease_lets_it_lapse_first(owner):
    claimed(idempotent=True).when(claim(owner=owner), at=NOON + LEASE).then(
        ("action.claimed", {"attempt": 2, "owner": owner})
    )
    claimed().when(claim(owner=owner), at=NOON + LEASE).refused(OutcomeUnknown)


# Releases


def test_a_release_makes_the_call_claimable_and_fences_the_attempt():
    story = claimed().when(release(), by=WORKER).then(("action.released", {"interrupt_id": "c1", "attempt": 1}))
    story.answers(outcome="applied", seq=7)
    assert story.result["call"]["execution"] == {
        "state": "unclaimed",
        "attempt": 1,
        "owner": None,
        "lease_until": None,
    }
    assert story.session.leases == {}
    story.when(result(1)).refused(Fenced)
    story.when(claim(owner="w2")).then(("action.claimed", {"attempt": 2}))


def test_a_release_again_is_a_duplicate():
    claimed().has(release()).when(release()).then().answers(outcome="duplicate", seq=7)


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_release_is_taken_after_its_lease_has_passed(idempotent):
    lapsed(idempotent=idempotent).when(release()).then("action.released")
    claimed(idempotent=idempotent).when(release(), at=NOON + LEASE).then("action.released")


@pytest.mark.parametrize("attempt", [0, 2, 7])
def test_only_the_current_attempt_is_released(attempt):
    claimed().when(release(attempt)).refused(Fenced)


@pytest.mark.parametrize("attempt", [0, 1])
def test_nothing_is_released_that_was_never_claimed(attempt):
    approved().when(release(attempt)).refused(Fenced)


def test_an_old_attempt_is_not_released_under_a_new_one():
    claimed().has(release()).has(claim(owner="w2")).when(release(1)).refused(Fenced)


def test_a_settled_attempt_is_not_released_even_if_an_earlier_one_was():
    story = claimed().has(release()).has(claim()).at(NOON + LEASE).has(ExpireDue()).has(settle("not_executed"))
    story.when(release(2)).refused(Fenced)


def test_an_executed_call_is_not_released_nor_claimed():
    story = claimed().has(result())
    story.when(release()).refused(ResultAlreadyRecorded)
    story.when(claim()).refused(ResultAlreadyRecorded)


# Results


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": 1.5}, 2**60])
@pytest.mark.parametrize("is_error", [False, True])
def test_a_result_is_recorded_as_it_is(value, is_error):
    story = (
        claimed()
        .when(result(1, value, is_error), by=WORKER)
        .then(("action.result", {"interrupt_id": "c1", "attempt": 1, "result": value, "is_error": is_error}))
    )
    story.answers(outcome="applied", seq=7)
    shown = story.result["call"]
    assert (shown["status"], shown["result"], shown["is_error"]) == ("EXECUTED", value, is_error)
    assert shown["execution"]["state"] == "done"
    assert story.session.leases == {}


def test_a_result_needs_no_claim():
    approved().when(result(None)).then(("action.result", {"attempt": 0}))


def test_a_result_without_a_claim_may_be_repeated():
    approved().has(result(None)).when(result(None)).then().answers(outcome="duplicate", seq=6)


def test_a_result_after_a_claim_names_its_attempt():
    for story in (claimed(), lapsed(), claimed().has(release()), claimed().has(result())):
        story.when(result(None)).refused(InvalidRequest, "/attempt")


def test_the_same_result_again_is_a_duplicate():
    story = claimed().has(result(1, {"n": 1}))
    story.when(result(1, {"n": 1.0})).then().answers(outcome="duplicate", seq=7)


@pytest.mark.parametrize("other", [result(1, "other"), result(1, "done", True), result(1, None), result(1, ["done"])])
def test_another_result_is_refused(other):
    claimed().has(result()).when(other).refused(ResultAlreadyRecorded)


def test_a_true_is_no_one():
    claimed().has(result(1, 1)).when(result(1, True)).refused(ResultAlreadyRecorded)


@pytest.mark.parametrize("attempt", [0, 2, 9])
def test_a_result_of_another_attempt_is_fenced(attempt):
    claimed().when(result(attempt)).refused(Fenced)
    claimed().has(result()).when(result(attempt)).refused(Fenced)


@pytest.mark.parametrize("idempotent", [False, True])
def test_the_current_attempt_is_taken_after_its_lease_has_passed(idempotent):
    lapsed(idempotent=idempotent).when(result()).then("action.result")
    claimed(idempotent=idempotent).when(result(), at=NOON + LEASE).then("action.result")


def test_a_stalled_worker_is_fenced_once_somebody_else_has_claimed():
    story = lapsed(idempotent=True).has(claim(owner="w2"))
    story.when(result(1)).refused(Fenced)
    story.when(result(2)).then("action.result")


# Settlements


def test_a_person_settles_that_it_was_executed():
    story = (
        lapsed()
        .when(settle("executed", {"id": 7}), by=ANNA)
        .then(
            (
                "action.settled",
                {
                    "interrupt_id": "c1",
                    "attempt": 1,
                    "outcome": "executed",
                    "result": {"id": 7},
                    "note": "looked it up",
                },
            )
        )
    )
    story.answers(outcome="applied", seq=8)
    assert (story.call().status, story.call().result) == ("EXECUTED", {"id": 7})
    story.when(result(1, {"id": 7})).then().answers(outcome="duplicate")
    story.when(result(1, "late")).refused(ResultAlreadyRecorded)
    story.when(claim()).refused(ResultAlreadyRecorded)


def test_a_person_settles_that_it_was_not_executed():
    story = lapsed().has(settle("not_executed"), by=ANNA)
    story.when(result(1)).refused(Fenced)
    story.when(release(1)).refused(Fenced)
    story.when(claim(owner="w2")).then(("action.claimed", {"attempt": 2, "owner": "w2"}))


def test_only_an_unknown_outcome_is_settled():
    stories = [
        given(ask()),
        given(ask(), reject()),
        approved(),
        claimed(),
        claimed().has(release()),
        claimed().has(result()),
        lapsed(idempotent=True),
        lapsed().has(settle("executed")),
        lapsed().has(settle("not_executed")),
        given(question("c1"), respond(1, "c1")),
    ]
    for story in stories:
        story.when(settle(), by=ANNA).refused(NotIndeterminate)


def test_a_lease_that_has_just_passed_may_be_settled():
    claimed().when(settle(), by=ANNA, at=NOON + LEASE).then("action.settled")


# After the end of the session


def test_everything_that_befalls_an_approved_call_may_follow_the_end():
    story = approved().has(event("session.completed"))
    story.when(claim(), by=WORKER).then("action.claimed")
    story.when(release(), by=WORKER).then("action.released")
    story.when(claim(), by=WORKER).then("action.claimed")
    story.pass_due(NOON + LEASE).then("action.lapsed")
    story.when(settle("not_executed"), by=ANNA).then("action.settled")
    story.when(claim(), by=WORKER).then("action.claimed")
    story.when(result(3), by=WORKER).then("action.result").leaves(status="completed", parked=False)
