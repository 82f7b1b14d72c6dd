"""The Lua scripts: one file each, loaded by name, sent by digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from importlib import resources
from typing import NamedTuple

Argument = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """One script. `text` runs anywhere; `source` has the line by which a real server checks, before the script
    starts, that it may write (memory, replica), so that it cannot fail half-way. One that is `urgent` writes also where
    the memory is full: it makes room, or something is not safe without it."""

    name: str
    text: str
    writes: bool = True
    urgent: bool = False

    source: str = field(init=False, repr=False)
    sha: str = field(init=False)
    plain_sha: str = field(init=False)
    """The digest without that line."""

    def __post_init__(self) -> None:
        flags = " flags=allow-oom" if self.urgent else "" if self.writes else " flags=no-writes"
        source = f"#!lua{flags}\n{self.text}"
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "sha", _sha(source))
        object.__setattr__(self, "plain_sha", _sha(self.text))


def _sha(source: str) -> str:
    return sha1(source.encode(), usedforsecurity=False).hexdigest()


class ScriptCall(NamedTuple):
    """One run of a script. Every key that it touches is in `keys`."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]

    @property
    def size(self) -> int:
        """About how many bytes it sends."""
        return sum([len(argument) for argument in self.args if not isinstance(argument, int)])


def load(package: str, name: str, *, writes: bool = True, urgent: bool = False) -> Script:
    """The script `lua/<name>.lua` of a package."""
    text = (resources.files(package) / "lua" / f"{name}.lua").read_text()
    return Script(name, text, writes, urgent)
