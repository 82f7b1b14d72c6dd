"""Whether a session's log agrees with what its clients were told, and when. Pure: it takes the log as it was read.

Each function gives the faults that it finds, as sentences.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from proofs.client import is_object
from proofs.histories.linearizability import NEVER

Event = dict[str, Any]
MARKED = "history.event"
"""The type of the events that are appended; their data has a `request`, which is unique, and their `place` in it."""
CLOSES = ("input.completed", "input.expired")
GOVERNED = ("input.", "action.", "session.")
"""Types that only the service writes, or that open a call."""
DERIVED = ("session.started", "session.waiting", "session.completed", "input.expired", "input.refused", "action.lapsed")
ENDS = ("session.completed", "session.failed")
AFTER_END = ("action.claimed", "action.released", "action.lapsed", "action.settled", "action.result")
AFTER_END_MOST = 1_000
"""How far from its last line the end of a log is looked for."""
MOST_REFUSALS = 10


@dataclass(slots=True)
class Append:
    """A request that appends `count` marked events: what became of it, as far as its client knows (`acknowledged`,
    `refused`, `unknown`), and the numbers that it was given."""

    request: int
    count: int
    outcome: str
    invoked: int
    answered: int = NEVER
    first_seq: int = 0
    last_seq: int = 0
    after: int | None = None
    """The version that it demanded."""


@dataclass(slots=True)
class Deed:
    """A request that makes an event of its own, as `input.completed`. `data` is what the event must hold; with
    `certain` its client was told that it did, at `seq` if that was told too."""

    type: str
    data: dict[str, Any]
    by: str
    certain: bool
    invoked: int
    answered: int = NEVER
    seq: int | None = None


@dataclass(slots=True)
class Seen:
    """A read that showed the log up to `seq`."""

    seq: int
    invoked: int
    answered: int


@dataclass(slots=True)
class Late:
    """Decisions that one person tried on one call and that were told `call-expired`; `unknown` ones may have been."""

    interrupt_id: str
    told: int = 0
    unknown: int = 0


@dataclass(slots=True)
class Told:
    """All that the clients of one session know."""

    appends: list[Append] = field(default_factory=list[Append])
    deeds: list[Deed] = field(default_factory=list[Deed])
    seen: list[Seen] = field(default_factory=list[Seen])
    late: dict[str, Late] = field(default_factory=dict[str, Late])


def faults(log: Sequence[Event], told: Told, committed: Mapping[int, int]) -> Iterator[str]:
    """Everything that is wrong. `committed` is when, by the engine's clock in ms, each event was committed."""
    yield from order_faults(log)
    yield from deadline_faults(log, committed)
    yield from append_faults(log, told.appends)
    yield from deed_faults(log, told.deeds)
    yield from refusal_faults(log, told.late)
    yield from real_time_faults(told)
    yield from half_seen_faults(told)


def follower_faults(log: Sequence[bytes], got: Sequence[bytes]) -> Iterator[str]:
    """Whoever follows gets every line of the log, in order, and nothing else; but for what befell an approved call
    after the session's end, where the stream may have ended."""
    later = [json.loads(line)["type"] for line in log[len(got) :]]
    ended = any(json.loads(line)["type"] in ENDS for line in got[-AFTER_END_MOST:])
    if got != log[: len(got)] or (later and not (ended and all(kind in AFTER_END for kind in later))):
        same = next((at for at, (one, other) in enumerate(zip(got, log, strict=False)) if one != other), len(got))
        here, there = got[same : same + 1], log[same : same + 1]
        yield f"a follower got {len(got)} lines of {len(log)}; at {same + 1} {here}, not {there}"


def order_faults(log: Sequence[Event]) -> Iterator[str]:
    """Numbers without a gap from 1, times that never go back, and one start."""
    if [event["seq"] for event in log if event["type"] == "session.started"] != [1]:
        yield "the log does not begin with its session's start, or has another"
    before = ""
    for number, event in enumerate(log, 1):
        if event["seq"] != number:
            yield f"event {number} of the log has seq {event['seq']}: {event}"
            return
        if event["time"] < before:
            yield f"time goes back at seq {number}, from {before} to {event['time']}"
        before = event["time"]


def deadline_faults(log: Sequence[Event], committed: Mapping[int, int]) -> Iterator[str]:
    """One outcome a call: a decision before its deadline, or an expiry from then on, and nothing in between."""
    waits, closed = dict[str, str](), dict[str, Event]()
    for event in log:
        kind, call, time = event["type"], event["data"].get("interrupt_id"), event["time"]
        if kind == "input.requested":
            if call in waits or call in closed:
                yield f"{call} was asked twice: {event}"
            waits[call] = event["data"]["expires_at"]
        elif kind in CLOSES:
            if (until := waits.pop(call, None)) is None:
                yield f"{call} has two outcomes: {closed.get(call)} and {event}"
                continue
            closed[call] = event
            late = max(time, _instant(committed.get(event["seq"]), time))
            if kind == "input.completed" and late >= until:
                yield f"{call} was decided at {late}, and its deadline is {until}: {event}"
            if kind == "input.expired" and time < until:
                yield f"{call} expired at {time}, before its deadline {until}: {event}"
        if kind != "input.expired" and (due := [call for call, until in waits.items() if until <= time]):
            yield f"{event} stands before the expiry of {due[0]}, which was due at {waits[due[0]]}"


def append_faults(log: Sequence[Event], appends: Iterable[Append]) -> Iterator[str]:
    """Each acknowledged event is there once, where its client was told, each refused one is absent, and of those that
    nobody knows of all of a request are there or none."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in log:
        if event["type"] == MARKED:
            found[event["data"]["request"]].append((event["data"]["place"], event["seq"]))
    for one in appends:
        there = found.pop(one.request, [])
        first = there[0][1] if there else 0
        whole = there == [(place, first + place) for place in range(one.count)]
        if one.outcome == "refused" and there:
            yield f"request {one.request} was refused, and {len(there)} of its events are there, from seq {first} on"
        elif one.outcome == "acknowledged" and (
            not whole or (first, one.last_seq) != (one.first_seq, first + one.count - 1)
        ):
            yield f"{one} was acknowledged; (place, seq) of what is there: {there[:20]}"
        elif there and not whole:
            yield f"{one} is there in part, or more than once: {there[:20]}"
        elif one.outcome == "acknowledged" and one.after not in (None, first - 1):
            yield f"{one} demanded version {one.after}, and was appended at seq {first}"
        if there:
            one.first_seq, one.last_seq = first, there[-1][1]
    for request, there in found.items():
        yield f"nobody sent request {request}, which is there: {there[:20]}"


def deed_faults(log: Sequence[Event], deeds: Iterable[Deed]) -> Iterator[str]:
    """What a client was told that it did is there exactly once, and whatever is there somebody did."""
    left: defaultdict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for event in log:
        if event["type"].startswith(GOVERNED) and event["type"] not in DERIVED:
            left[event["type"], event["data"].get("interrupt_id")].append(event)
    for deed in sorted(deeds, key=lambda one: (not one.certain, one.invoked)):  # of those alike, whoever was first
        there = left[deed.type, deed.data.get("interrupt_id")]
        fit = [event for event in there if _fits(event, deed)]
        if deed.certain and len(fit) != 1:
            yield f"told was {deed}; in the log are {fit or there}"
        if fit:
            there.remove(fit[0])
            deed.seq = fit[0]["seq"]
    for there in left.values():
        for event in there:
            if event["data"].get("action") != "cancel":
                yield f"nobody was told of {event}"


def _fits(event: Event, deed: Deed) -> bool:
    return event["by"] == deed.by and deed.seq in (None, event["seq"]) and _holds(event["data"], deed.data)


def _holds(whole: Any, part: Any) -> bool:
    """Whether all that is in the part is in the whole, in its place."""
    if is_object(whole) and is_object(part):
        return all(name in whole and _holds(whole[name], value) for name, value in part.items())
    return whole == part


def refusal_faults(log: Sequence[Event], late: Mapping[str, Late]) -> Iterator[str]:
    """Each decision that came too late has left its trace, up to a number."""
    traces: defaultdict[str, int] = defaultdict(int)
    for event in log:
        if event["type"] == "input.refused":
            traces[event["data"]["interrupt_id"]] += 1
    for name in traces.keys() | late.keys():
        known = late.get(name, Late(name))
        least, most = min(known.told, MOST_REFUSALS), min(known.told + known.unknown, MOST_REFUSALS)
        if not least <= traces[name] <= most:
            yield f"{known.told} decisions on {name} were told that it had expired, and {traces[name]} left a trace"


def real_time_faults(told: Told) -> Iterator[str]:
    """What was answered before another was sent stands before it. Numbers are doubled: a read stands behind what it
    saw, and before what comes next."""
    placed = [(2 * one.seq + 1, one.invoked, one.answered, one) for one in told.seen]
    placed += [(2 * one.first_seq, one.invoked, one.answered, one) for one in told.appends if one.first_seq]
    placed += [(2 * one.seq, one.invoked, one.answered, one) for one in told.deeds if one.seq]
    placed.sort(key=lambda entry: entry[0], reverse=True)
    earliest, whose = NEVER, None
    for _, together in groupby(placed, key=lambda entry: entry[0]):
        entries = list(together)
        for _, invoked, _, one in entries:
            if invoked > earliest:
                yield f"{one} stands before what was answered before it was sent: {whose}"
        for _, _, answered, one in entries:
            if answered < earliest:
                earliest, whose = answered, one


def half_seen_faults(told: Told) -> Iterator[str]:
    """No read ends within a batch."""
    inside = {seq: one for one in told.appends if one.first_seq for seq in range(one.first_seq, one.last_seq)}
    for read in told.seen:
        if read.seq in inside:
            yield f"{read} saw a part of {inside[read.seq]}"


def _instant(ms: int | None, otherwise: str) -> str:
    return otherwise if ms is None else instant(ms)


def instant(ms: int) -> str:
    """As the protocol writes it; texts of this form compare as their times do."""
    seconds, rest = divmod(ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:03d}Z"
