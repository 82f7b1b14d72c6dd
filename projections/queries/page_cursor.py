"""Where a page ended, as the opaque text that the next request sends back.

It tells what the page before showed last, and nothing else, so it needs no seal.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from eventstore.domain.errors import InvalidRequest

_LONGEST = 4_096
_LARGEST = 2**53
"""Scores are doubles: beyond this not every integer is one."""


@dataclass(frozen=True, slots=True)
class PageCursor:
    """`kind` tells one list's cursors, and one tenant's, from another's; then what was shown last."""

    kind: str
    score: int
    member: str = ""

    def encode(self) -> str:
        text = json.dumps([self.kind, self.score, self.member], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str | None, kind: str) -> PageCursor | None:
    """Raises `InvalidRequest` for anything that no earlier page of this list gave."""
    if text is None:
        return None
    try:
        if len(text) > _LONGEST:
            raise ValueError
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found, score, member = json.loads(raw)
        if found != kind or type(score) is not int or type(member) is not str or not -_LARGEST < score < _LARGEST:
            raise ValueError
        member.encode()  # a lone surrogate is no name
    except (ValueError, TypeError, RecursionError):
        raise InvalidRequest.parameter("cursor", "is not a cursor that an earlier page of this list gave") from None
    return PageCursor(kind, score, member)
