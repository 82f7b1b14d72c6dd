"""Clients that append: single events and batches, demanding a version or not, with connections that they cut
themselves; and batches that must be refused as a whole."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from proofs.client import Answer
from proofs.histories.exchange import Cut, Outcome
from proofs.histories.logs import MARKED, Append
from proofs.histories.witness import Witness
from proofs.proof import Breach

SIZES = ((0.40, (1, 1)), (0.35, (2, 20)), (0.25, (21, 200)))
"""How many events a request has: of a hundred requests 40 one, 35 up to 20, and 25 up to 200; 32 on average."""
MANNERS = ("plain",) * 78 + ("repeat",) * 8 + ("leave",) * 3 + ("version",) * 7 + ("reserved",) * 2 + ("order",) * 2
"""In a hundred requests: the connection is cut and the request repeated, or left; a version is demanded; the batch
holds what a publisher may not send, or what may not come now."""
_SPOILT = {"reserved": {"type": "input.completed"}, "order": {"type": "turn.completed"}}
_PROBLEMS = {"reserved": "reserved-type", "order": "illegal-transition", "version": "version-mismatch"}


@dataclass(slots=True)
class Ledger:
    """How many events are still to be appended, and which request is next. Shared by the publishers of a session."""

    left: int
    requests: int = 0
    acknowledged: int = 0


async def publish(witness: Witness, ledger: Ledger, chance: random.Random) -> None:
    """Append until enough was acknowledged."""
    while ledger.left > 0:
        ledger.requests += 1
        one = Append(ledger.requests, min(_size(chance), ledger.left), "unknown", 0)
        ledger.left -= one.count
        manner = chance.choice(MANNERS)
        await _request(witness, one, manner, chance)
        if one.outcome == "acknowledged":
            ledger.acknowledged += one.count
        else:
            ledger.left += one.count
        await asyncio.sleep(0)


def _size(chance: random.Random) -> int:
    draw = chance.random()
    for share, (least, most) in SIZES:
        if draw < share:
            return chance.randint(least, most)
        draw -= share
    return 1


async def _request(witness: Witness, one: Append, manner: str, chance: random.Random) -> None:
    events: list[dict[str, Any]] = [
        {"type": MARKED, "data": {"request": one.request, "place": place}} for place in range(one.count)
    ]
    if manner in _SPOILT:
        events.insert(chance.randint(0, one.count), _SPOILT[manner])
    if manner == "version":
        one.after = max(1, witness.newest - (chance.random() < 0.2))
    headers = None if one.after is None else {"If-Match": f'"{one.after}"'}
    cut: Cut = "repeat" if manner == "repeat" else "leave" if manner == "leave" else "no"
    outcome = await witness.exchange.request("POST", f"{witness.path}/events", events, headers=headers, cut=cut)
    witness.told.appends.append(one)
    _take(witness, one, manner, outcome)


def _take(witness: Witness, one: Append, manner: str, outcome: Outcome) -> None:
    """What became of it. Raises `Breach` where it was answered what it must not be."""
    one.invoked, answer = outcome.invoked, outcome.answer
    if answer is None:
        return
    if answer.status == 201 and manner not in _SPOILT:
        body = answer.json()
        one.outcome, one.answered = "acknowledged", outcome.answered
        one.first_seq, one.last_seq = body["first_seq"], body["last_seq"]
        witness.newest = max(witness.newest, one.last_seq)
        _check_listed(one, body)
    elif answer.problem == _PROBLEMS.get(manner):
        one.outcome = "refused"
        witness.newest = max(witness.newest, answer.json().get("current_seq", 0))
    else:
        raise Breach(f"a request ({manner}) of {witness.name} was answered {answer}")


def _check_listed(one: Append, body: dict[str, Any]) -> None:
    listed = [(event["seq"], event["type"]) for event in body["events"]]
    if listed != [(one.first_seq + place, MARKED) for place in range(one.count)]:
        raise Breach(f"{one} was acknowledged with a list of other events: {body}")


async def glance(witness: Witness, chance: random.Random, until: asyncio.Event) -> None:
    """A client that looks how far the log is, now and then."""
    while not until.is_set():
        start = chance.randint(1, witness.newest + 1)
        page = f"{witness.path}/events?from={start}&limit=1"
        outcome = await witness.exchange.request("GET", page, headers={"Accept": "application/json"})
        if outcome.answer is not None:
            witness.saw(outcome, _good(witness, outcome.answer)["last_seq"])
        await asyncio.sleep(chance.uniform(0.05, 0.25))


def _good(witness: Witness, answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise Breach(f"{witness.name} was created, and a page of its log is answered {answer}")
    return answer.json()
