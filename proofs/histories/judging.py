"""The history of one call, judged; and, where it cannot be explained, the shortest story of why."""

from __future__ import annotations

from collections.abc import Sequence

from proofs.histories.call import Call, Deadline, LeaseEnd, SessionEnd
from proofs.histories.linearizability import NEVER, find_order, smallest
from proofs.histories.register import Register
from proofs.histories.witness import Done


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
