"""Request bodies that one server holds at once, bounded by their bytes.

Counted from the first byte until the request is answered: what a body was parsed into waits for its commit for as long.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from eventstore.domain.errors import Overloaded

_HELD: Final = "layby.body"


class BodyBudget:
    """Counts only what has arrived: whoever merely announces a large body keeps nobody else out."""

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.held: int = 0

    def check(self, size: int) -> None:
        """Raises `Overloaded` if so many bytes more are too many now."""
        if self.held + size > self.limit:
            raise Overloaded(f"{self.held} bytes of requests are under way already; try again in a moment")

    def take(self, scope: Scope, size: int) -> None:
        """This request holds so many bytes more. Raises `Overloaded`."""
        self.check(size)
        self.held += size
        scope[_HELD] = scope.get(_HELD, 0) + size

    def give(self, scope: Scope, size: int) -> None:
        """So many of them are done with, while the request goes on."""
        self.held -= size
        scope[_HELD] -= size

    def release(self, scope: Scope) -> None:
        """The request is over."""
        self.held -= scope.get(_HELD, 0)
