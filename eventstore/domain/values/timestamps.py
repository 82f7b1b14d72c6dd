"""Points in time: integer milliseconds since 1970 inside, RFC 3339 UTC with milliseconds and `Z` outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

# RFC 3339, section 5.6; a leap second has no place on the Unix time line and is refused.
_RFC3339 = re.compile(
    r"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)"
    + r"(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def text(ms: int) -> str:
    """`2026-11-29T12:00:00.123Z`."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def parse(value: str) -> int:
    """Milliseconds of an RFC 3339 time, any offset; finer digits are cut off. Raises ValueError."""
    found = _RFC3339.fullmatch(value)
    try:
        if not found:
            raise ValueError
        moment = datetime.fromisoformat(found[1].upper() + found[3].upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or outside the years 1 to 9999
        raise ValueError("not an RFC 3339 time such as 2026-11-29T12:00:00.123Z") from None
    return int(moment.timestamp()) * 1000 + int((found[2] or "0")[:3].ljust(3, "0"))
