"""What lies in the engine, read with redis-py alone: the streams, and the read models as they are stored."""

from __future__ import annotations

import json
import re
from typing import Any

from proofs.engines import EngineClient
from proofs.model.fold import Event, Session, canonical, folded

_KEY = re.compile(r"layby:\{p(\d+)\}:proj:([^:]+):(.+)")


class Stored:
    """One store."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    @property
    def tags(self) -> list[str]:
        count = int(self._client.hget("layby:store", "partitions") or 0)
        return [f"layby:{{p{number:02d}}}" for number in range(count)]

    def sessions(self) -> dict[str, Session]:
        """Every session, folded from its stream by the reference fold; in no order."""
        found = dict[str, Session]()
        for tag in self.tags:
            for name in self._names(tag):
                session = found[name] = folded(name, self.events(tag, name))
                session.past[session.seq] = canonical(session.snapshot())
        return found

    def _names(self, tag: str) -> list[str]:
        return [member.partition("/")[2] for member in self._client.zrange(f"{tag}:sessions", 0, -1)]

    def events(self, tag: str, name: str) -> list[Event]:
        return [json.loads(fields["e"]) for _, fields in self._client.xrange(f"{tag}:default:s:{name}:events")]

    def served(self, tag: str) -> str:
        return self._client.get(f"{tag}:proj:current") or "0"

    def models(self) -> dict[str, Any]:
        """All that is stored in the generations that are served, whatever they are called; checkpoints apart."""
        return {key: value for key, value in self.models_and_checkpoints().items() if not key.endswith(" checkpoint")}

    def models_and_checkpoints(self) -> dict[str, Any]:
        generations = {tag[8:-1]: self.served(tag) for tag in self.tags}
        found = dict[str, Any]()
        for key in self._client.scan_iter(match="layby:{p*}:proj:*", count=1_000):
            match = _KEY.fullmatch(key)
            if match and match[2] == generations[match[1]]:
                found[f"{match[1]} {match[3]}"] = self._value(key)
        return found

    def _value(self, key: str) -> Any:
        match self._client.type(key):
            case "hash":
                return self._client.hgetall(key)
            case "string":
                return self._client.get(key)
            case "list":
                return self._client.lrange(key, 0, -1)
            case _:
                return dict(self._client.zrange(key, 0, -1, withscores=True))

    def behind_the_checkpoint(self) -> list[str]:
        """Views that do not hold what the checkpoint says was taken in: there must never be one. (They may hold more:
        the checkpoint moves once all that a reading named is written.)"""
        found = list[str]()
        for tag in self.tags:
            base = f"{tag}:proj:{self.served(tag)}"
            wanted = dict[str, int | None]()
            for _, entry in self._client.xrange(f"{tag}:feed", "-", self._client.get(f"{base}:checkpoint") or "0-0"):
                wanted[entry["s"]] = None if "d" in entry else int(entry["l"])
            alive = set(self._names(tag))
            for name, seq in wanted.items():
                view = self._client.hget(f"{base}:default:s:{name}:view", "seq")
                if seq is None and view:
                    found.append(f"{name} was deleted, and its view is still there")
                if seq is not None and name in alive and int(view or 0) < seq:
                    found.append(f"{name}: the checkpoint says seq {seq}, its view is at {view}")
        return found
