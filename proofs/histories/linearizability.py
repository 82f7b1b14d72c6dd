"""Whether what clients saw of one object can be told in one order, each request at one moment between its sending and
its answer. Pure: it knows nothing of Layby.

The search is that of J. M. Wing and C. Gong, "Testing and Verifying Concurrent Objects" (Journal of Parallel and
Distributed Computing 17, 1993): choose a request that no other was answered before, let the object make its step, go
on with the rest, and go back where no choice fits. With it, as G. Lowe describes in "Testing for linearizability"
(Concurrency and Computation: Practice and Experience 29, 2017), go memories of the configurations (what is done, and
the state it led to) from which the search need not start again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)
Asked = TypeVar("Asked")
Heard = TypeVar("Heard")

NEVER = 1 << 62
"""When a request was answered whose answer never came. It may have taken effect at any time since, or not at all."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[Asked, Heard]):
    """One request: what was asked, what was heard (None: nobody knows), and when, in nanoseconds of one clock.

    With an answer in time but nothing heard it is something that happens by itself between two moments.
    """

    asked: Asked
    heard: Heard | None
    invoked: int
    answered: int = NEVER
    where: str = ""
    """For the reader of a failure: which client, which server."""


class Model(Protocol[State, Asked, Heard]):
    """The object that was used."""

    def step(self, state: State, operation: Operation[Asked, Heard], /) -> State | None:
        """Its state after the operation, or None if it could not have answered so in this one."""
        ...

    def idle(self, operation: Operation[Asked, Heard], /) -> bool:
        """Whether the operation, by what it heard, leaves every state as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict(Generic[State, Asked, Heard]):
    """What the search found. `order` is one order that explains the history; without one it is the longest that was
    found, `state` is where it led, and none of `stuck` fits there."""

    holds: bool
    order: list[Operation[Asked, Heard]]
    state: State
    stuck: list[Operation[Asked, Heard]]
    looked_at: int


def find_order(
    history: Sequence[Operation[Asked, Heard]], initial: State, model: Model[State, Asked, Heard]
) -> Verdict[State, Asked, Heard]:
    """Search an order of the history that respects real time, and in which each answer is the right one."""
    operations = sorted(history, key=lambda one: one.invoked)
    must = sum(1 << number for number, one in enumerate(operations) if one.answered < NEVER)
    came_from: dict[tuple[int, State], tuple[int, State, int] | None] = {(0, initial): None}
    stack, best = [(0, initial)], (0, initial)
    while stack:
        done, state = stack.pop()
        if done & must == must:
            return Verdict(True, _told(operations, came_from, (done, state)), state, [], len(came_from))
        if (done & must).bit_count() > (best[0] & must).bit_count():
            best = done, state
        for number, after in _moves(operations, done, state, model):
            reached = done | 1 << number, after
            if reached not in came_from:
                came_from[reached] = done, state, number
                stack.append(reached)
    stuck = [operations[number] for number in _next(operations, best[0])]
    return Verdict(False, _told(operations, came_from, best), best[1], stuck, len(came_from))


def smallest(
    history: Sequence[Operation[Asked, Heard]], initial: State, model: Model[State, Asked, Heard]
) -> list[Operation[Asked, Heard]]:
    """What is left of a history that cannot be explained, without requests that are not needed to show it.

    Only idle ones go: without them, what could be explained still can.
    """
    left = list(history)
    for one in filter(model.idle, history):
        rest = [other for other in left if other is not one]
        if not find_order(rest, initial, model).holds:
            left = rest
    return left


def _moves(
    operations: Sequence[Operation[Asked, Heard]], done: int, state: State, model: Model[State, Asked, Heard]
) -> Iterator[tuple[int, State]]:
    """What could come next. What is idle is taken at once and alone: to wait with it never helps."""
    found = list[tuple[int, State]]()
    for number in _next(operations, done):
        after = model.step(state, operations[number])
        if after is not None and model.idle(operations[number]):
            yield number, after
            return
        if after is not None:
            found.append((number, after))
    yield from reversed(found)


def _next(operations: Sequence[Operation[Asked, Heard]], done: int) -> Iterator[int]:
    """Those that are not done, and that no other of these was answered before."""
    open_ = [number for number in range(len(operations)) if not done >> number & 1]
    first_answer = min((operations[number].answered for number in open_), default=NEVER)
    return (number for number in open_ if operations[number].invoked <= first_answer)


def _told(
    operations: Sequence[Operation[Asked, Heard]],
    came_from: dict[tuple[int, State], tuple[int, State, int] | None],
    end: tuple[int, State],
) -> list[Operation[Asked, Heard]]:
    order, at = list[Operation[Asked, Heard]](), came_from[end]
    while at is not None:
        done, state, number = at
        order.append(operations[number])
        at = came_from[done, state]
    return order[::-1]
