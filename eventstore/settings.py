"""What an operator can choose. The only module that reads the environment.

A value comes from the command line if given there, else from `LAYBY_<NAME>`, else from the default below.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

DAY_MS = 86_400_000
MAX_EXPIRY_MS = 30 * DAY_MS
"""How far away a deadline may lie, in milliseconds, unless the operator chooses otherwise."""
MIB = 1024 * 1024
CENTURY_MS = 36_525 * DAY_MS
_KINDS = ("memory", "fsync", "replicated")
REDIS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+cluster://", "redis+sentinel://")


class SettingsError(Exception):
    """A setting that cannot be used. The message is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Durability:
    """What must be reached before a commit is acknowledged.

    `memory`: Redis has it. `fsync`: it is on Redis's disk. `replicated`: it is also on the disk of
    at least `replicas` of its replicas.
    """

    kind: Literal["memory", "fsync", "replicated"]
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `memory`, `fsync` or `replicated:<n>`; anything else is a ValueError."""
        if text in ("memory", "fsync"):
            return cls(text)
        if found := re.fullmatch(r"replicated:([1-9][0-9]?)", text, re.ASCII):
            return cls("replicated", int(found[1]))
        raise ValueError(f"not a durability: {text!r}")

    def met_by(self, reached: str) -> bool:
        """Whether what a commit has reached (`memory`, `fsync`, `replicated`) is as much as this."""
        return _KINDS.index(reached) >= _KINDS.index(self.kind)

    def __str__(self) -> str:
        return f"replicated:{self.replicas}" if self.kind == "replicated" else self.kind


def _durability(value: object) -> object:
    return Durability.parse(value) if isinstance(value, str) else value


def _redis_url(value: str | None) -> str | None:
    if value is not None and not value.startswith(REDIS_SCHEMES):
        raise ValueError("unknown scheme")
    return value


def _default_expiry(earlier: Mapping[str, object]) -> int:
    """A day; or less, where the operator allows less and said nothing about the default."""
    longest = earlier["max_expiry_ms"]
    assert isinstance(longest, int)
    return min(DAY_MS, longest)


class Settings(BaseModel):
    """Every setting, checked. Each description says what is allowed, as the operator reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", min_length=1, description="an address or host name to listen on")
    port: int = Field(8700, ge=0, le=65_535, description="a whole number from 0 (any free port) to 65535")
    data_dir: Path = Field(Path("layby-data"), description="a directory for the embedded engine's data")
    # Kept out of repr: it may hold a password.
    redis_url: Annotated[str | None, AfterValidator(_redis_url)] = Field(
        None, repr=False, description="a URL that starts with " + ", ".join(REDIS_SCHEMES)
    )
    max_expiry_ms: int = Field(
        MAX_EXPIRY_MS, ge=1, le=CENTURY_MS, description=f"a whole number of milliseconds from 1 to {CENTURY_MS}"
    )
    default_expiry_ms: int = Field(
        default_factory=_default_expiry,
        ge=1,
        description="a whole number of milliseconds from 1 to the value of max_expiry_ms",
    )
    durability: Annotated[Durability, BeforeValidator(_durability)] = Field(
        Durability("fsync"), description="memory, fsync or replicated:<n>, with n from 1 to 99"
    )

    # Read only when a store is first set up.
    partitions: int = Field(64, ge=1, le=4096, description="a whole number from 1 to 4096")
    # Feed entries to keep in each partition.
    feed_keep: int = Field(20_000, ge=100, description="a whole number from 100")
    # Commands that may wait before 503 overloaded.
    max_pending: int = Field(4096, ge=1, description="a whole number from 1")
    # Bytes of request bodies under way before 503 overloaded.
    body_bytes: int = Field(64 * MIB, ge=8 * MIB, description=f"a whole number of bytes from {8 * MIB}")

    @model_validator(mode="after")
    def _default_within_maximum(self) -> Self:
        if self.default_expiry_ms > self.max_expiry_ms:
            raise ValueError(
                f"the default expiry (--default-expiry-ms, {self.default_expiry_ms}) must not exceed"
                f" the longest allowed (--max-expiry-ms, {self.max_expiry_ms})"
            )
        return self


def load_settings(given: Mapping[str, object]) -> Settings:
    """Read the settings. `given` holds what the command line said; a None in it counts as unsaid.

    Raises SettingsError, one line that names the first wrong option or variable and what it allows.
    """
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings.model_validate(_environment() | said)
    except ValidationError as error:
        raise SettingsError(_explain(error.errors()[0], said)) from None


def _environment() -> dict[str, str]:
    """An empty variable means unset, so that compose files can pass on what may not be there. What names no setting is
    somebody else's."""
    given = {name.upper(): value for name, value in os.environ.items() if value}
    return {name: given[variable] for name in Settings.model_fields if (variable := f"LAYBY_{name.upper()}") in given}


def _explain(error: ErrorDetails, said: Mapping[str, object]) -> str:
    if not error["loc"]:
        return error["msg"].removeprefix("Value error, ")
    name = str(error["loc"][0])
    source = f"--{name.replace('_', '-')}" if name in said else f"LAYBY_{name.upper()}"
    if name not in Settings.model_fields:
        return f"there is no setting {name}"
    allowed = Settings.model_fields[name].description
    # A URL is not repeated: it may hold a password.
    wrong = "a URL Layby cannot use" if name == "redis_url" else repr(str(error["input"]))
    return f"{source} is {wrong}; it must be {allowed}"
