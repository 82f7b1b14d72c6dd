"""The bodies of this mount. Its model says nothing of unknown fields, so they are passed over; `null` is absent."""

from __future__ import annotations

from typing import Any, cast

from api.requests.bodies import parse_json
from api.zhin.answers import BadRequest
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.values.field_types import NOTE_MAX


class Body:
    """A JSON object. Every method raises `BadRequest`."""

    def __init__(self, raw: bytes) -> None:
        try:
            value = parse_json(raw)
        except InvalidRequest:
            raise BadRequest("INVALID_BODY") from None
        if not isinstance(value, dict):
            raise BadRequest("INVALID_BODY")
        self._fields: dict[str, Any] = cast("dict[str, Any]", value)

    def text(self, name: str, missing: str) -> str:
        """Text that says something. `missing` is the code of its absence."""
        value = self._fields.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadRequest(missing)
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > NOTE_MAX):
            raise BadRequest("INVALID_BODY")
        return value

    def flag(self, name: str, missing: str) -> bool:
        """`true` or `false`, and nothing that could pass for one of them."""
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise BadRequest(missing)
        return value
