"""Query parameters that several routes share."""

from __future__ import annotations

from typing import Final

from api.http import query_parameters

LIST_DEFAULT: Final = 50
"""How many sessions, steps or calls a page has, unless its reader asks for another number."""
LIST_MAX: Final = 1_000
"""The most of them that a page has: a thousand calls with arguments are megabytes already."""

LIMIT: Final = query_parameters.whole(
    "limit", "How many a page has at most.", least=1, most=LIST_MAX, default=LIST_DEFAULT
)
CURSOR: Final = query_parameters.text("cursor", "The `next_cursor` of the page before.")
AGENT: Final = query_parameters.text("agent", "Only those of this agent.")
TYPES: Final = query_parameters.types(
    "types", "Only these types, by comma; `step.*` stands for all that begin so. Does not change any seq."
)
