"""What the clients know, judged; and, where a history cannot be explained, the shortest story of why."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proofs.engines import EngineClient
from proofs.histories import logs
from proofs.histories.call import Call, Deadline, Decide, LeaseEnd, SessionEnd
from proofs.histories.exchange import EngineClock
from proofs.histories.linearizability import NEVER, find_order, smallest
from proofs.histories.register import Register
from proofs.histories.witness import Done, History, Witness
from proofs.proof import Breach

FEED_PAGE = 10_000


@dataclass(slots=True)
class Tally:
    """What was judged."""

    calls: int = 0
    operations: int = 0
    configurations: int = 0
    at_the_deadline: int = 0
    """Decisions that were under way as the deadline of their call passed."""
    appended: int = 0
    appends: int = 0
    logged: int = 0
    followed: int = 0
    uncertainty_ns: int = 0


class Judge:
    """Raises `Breach` with the first fault of a session."""

    def __init__(self, engine: EngineClient) -> None:
        self.tally = Tally()
        self._engine = engine
        self._feeds: dict[str, str] = {}

    def log(self, witness: Witness, lines: list[bytes], committed: dict[int, int]) -> None:
        """The log against what clients were told."""
        told = witness.told
        for call in witness.calls.values():
            told.deeds += call.deeds()
            told.late[call.interrupt_id] = call.late()
        self.tally.logged += len(lines)
        _raise(witness, logs.faults([json.loads(line) for line in lines], told, committed))

    def calls(self, witness: Witness, clock: EngineClock) -> None:
        """The history of each call."""
        self.tally.uncertainty_ns = max(self.tally.uncertainty_ns, clock.uncertainty_ns)
        for call in witness.calls.values():
            if len(call.deadlines) > 1:
                _raise(witness, [f"the deadline of {call.interrupt_id} moved: {sorted(call.deadlines)}"])
            operations = [*call.complete(clock), witness.ended]
            fault, looked_at = call_faults(call.interrupt_id, operations, call.register)
            _raise(witness, [fault] if fault else [])
            self.tally.calls += 1
            self.tally.operations += len(operations)
            self.tally.configurations += looked_at
            self.tally.at_the_deadline += _at_the_deadline(call, clock)

    def followers(self, witness: Witness, lines: list[bytes], followed: list[list[bytes]]) -> None:
        """What followers got against the log."""
        for got in followed:
            self.tally.followed += len(got)
            _raise(witness, logs.follower_faults(lines, got))

    def committed(self) -> defaultdict[str, dict[int, int]]:
        """When each event since the last time was committed, by session and seq: the feeds of the store tell it, by
        the engine's own clock (see docs/redis-layout.md)."""
        found: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for key in self._engine.scan_iter("layby:*:feed"):
            while page := self._engine.xrange(key, f"({self._feeds.get(key, '0')}", count=FEED_PAGE):
                for entry, fields in page:
                    if "f" in fields:
                        times = dict.fromkeys(range(int(fields["f"]), int(fields["l"]) + 1), int(entry.split("-")[0]))
                        found[fields["s"]] |= times
                self._feeds[key] = page[-1][0]
        return found


def _raise(witness: Witness, found: Iterable[str]) -> None:
    for fault in found:
        raise Breach(f"session {witness.name}: {fault}")


def _at_the_deadline(call: History, clock: EngineClock) -> int:
    if not call.deadlines:
        return 0
    early, late = clock.between(call.deadline_ms)
    decisions = (one for one in call.operations if isinstance(one.asked, Decide))
    return sum(one.invoked < early and one.answered > late for one in decisions)


def call_faults(name: str, operations: Sequence[Done], register: Register) -> tuple[str, int]:
    """What is wrong with the history of a call (nothing, if it is empty), and how much the search looked at."""
    verdict = find_order(operations, Call(), register)
    if verdict.holds:
        return "", verdict.looked_at
    least = smallest(operations, Call(), register)
    verdict = find_order(least, Call(), register)
    begin = min(one.invoked for one in least)
    order = "\n".join(f"    {_line(one, begin)}" for one in verdict.order)
    stuck = "\n".join(f"    {_line(one, begin)}" for one in verdict.stuck)
    return (
        f"no order explains what was heard of {name}. In ms since its first request, as far as it goes:\n{order}\n"
        f"  which leads to {verdict.state}, and then none of these fits:\n{stuck}"
    ), verdict.looked_at


def _line(one: Done, begin: int) -> str:
    ended = "never" if one.answered == NEVER else f"{(one.answered - begin) / 1e6:.3f}"
    by_itself = isinstance(one.asked, Deadline | LeaseEnd | SessionEnd)
    said = "" if by_itself else f" -> {one.heard or 'nobody knows'}"
    return f"{(one.invoked - begin) / 1e6:.3f} to {ended}: {one.asked}{said} ({one.where or 'by itself'})"
