"""Damage to one log, as a disk or a person may do it; and its repair."""

from __future__ import annotations

import json
from typing import Any

from proofs.projections.logs import Stored


class Damaged:
    """The stream of one session."""

    def __init__(self, client: Any, session_id: str) -> None:
        self._client = client
        self._key = next(
            key for tag in Stored(client).tags if client.exists(key := f"{tag}:default:s:{session_id}:events")
        )
        self._before = dict[str, dict[str, str]]()

    def line(self, seq: int, *, cut: bool) -> None:
        """Cut an event's line in two; or leave it JSON, and take away what it said."""
        entries = dict(self._client.xrange(self._key))
        entry = f"{seq}-0"
        self._before = {entry: entries[entry]}
        text = entries[entry]["e"]
        damaged = text[:40] if cut else json.dumps({**json.loads(text), "data": {}})
        self._write(entries | {entry: {**entries[entry], "e": damaged}})

    def mend(self) -> None:
        """Put it back, beside what has come since."""
        self._write(dict(self._client.xrange(self._key)) | self._before)

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        with self._client.pipeline() as pipeline:
            pipeline.delete(self._key)
            for entry, fields in entries.items():
                pipeline.xadd(self._key, fields, id=entry)
            pipeline.execute()
