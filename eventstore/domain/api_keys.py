"""Keys to the door: what one opens, whose things they are, and how it is told from a guess.

A key is `layby_<id>_<secret>`. The id is no secret: it is there so that a key is found without a search. The secret is
random and longer than any guessing, so one round of SHA-256 over the whole key hides it as well as any slow hash would:
those are for passwords, which people choose and others can guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Self

from eventstore.domain.events import SERVICE
from eventstore.domain.values import json_text

SCOPES: Final = ("publish", "read", "decide", "execute", "admin", "act_as")
ANY: Final = ""
"""In place of a scope: any key will do."""
DEFAULT_TENANT: Final = "default"
ANONYMOUS: Final = "anonymous"
"""The name of whoever enters where no key is needed."""
RESERVED_NAMES: Final = frozenset({SERVICE, ANONYMOUS})

_ID: Final = "[0-9a-hjkmnp-tv-z]{12}"
_SECRET: Final = "[0-9a-hjkmnp-tv-z]{52}"
_KEY = re.compile(f"layby_({_ID})_{_SECRET}", re.ASCII)
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}", re.ASCII)


class WrongWord(ValueError):
    """A name, a tenant or a scope that no key can have. The message says what is allowed."""


def tenant(text: str) -> str:
    """The tenant, which becomes a part of Redis keys and of cursors. Raises `WrongWord`."""
    if not _TENANT.fullmatch(text):
        raise WrongWord(
            f"{text!r} is no tenant: 1 to 64 letters, digits, '_', '.' and '-', of which the first is a letter or digit"
        )
    return text


def name(text: str) -> str:
    """The name that events written with the key carry. Raises `WrongWord`."""
    if not _NAME.fullmatch(text):
        raise WrongWord(
            f"{text!r} is no name for a key: 1 to 100 letters, digits, '_', '.', '@', '+' and '-', of which the first"
            " is a letter or digit"
        )
    if text.lower() in RESERVED_NAMES:
        raise WrongWord(f"no key can be called {text}: events would look as if somebody else had written them")
    return text


def scopes(words: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once, in the usual order. Raises `WrongWord`."""
    given = set(words)
    if unknown := sorted(given - set(SCOPES)):
        raise WrongWord(f"there is no scope {', '.join(map(repr, unknown))}; the scopes are {', '.join(SCOPES)}")
    if not given:
        raise WrongWord(f"a key needs a scope; the scopes are {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in given)


def key_text(key_id: str, secret: str) -> str:
    return f"layby_{key_id}_{secret}"


def id_of(text: str) -> str | None:
    """The public part of a key; None for what cannot be one."""
    found = _KEY.fullmatch(text)
    return found[1] if found else None


def digest(text: str) -> str:
    """What is stored in place of a key."""
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key, as it is stored. Times are milliseconds of the engine's clock."""

    key_id: str
    name: str
    tenant: str
    scopes: tuple[str, ...]
    digest: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def opens_for(self, text: str) -> bool:
        """Whether this is the key. Takes as long for a near guess as for a wild one."""
        return compare_digest(self.digest, digest(text))

    def live_at(self, now: int) -> bool:
        """Whether it opens anything: from its expiry on it does not."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may(self, scope: str) -> bool:
        return scope == ANY or scope in self.scopes

    def record(self) -> str:
        """All but the revocation, which comes later."""
        return json_text.dumps(
            {
                "name": self.name,
                "tenant": self.tenant,
                "scopes": list(self.scopes),
                "digest": self.digest,
                "created_at": self.created_at,
                "expires_at": self.expires_at,
            }
        )

    @classmethod
    def read(cls, key_id: str, record: bytes, revoked_at: int | None) -> Self:
        """Of a record, as `record` made it."""
        fields: dict[str, Any] = json_text.read(record)
        return cls(
            key_id,
            fields["name"],
            fields["tenant"],
            tuple(fields["scopes"]),
            fields["digest"],
            fields["created_at"],
            fields["expires_at"],
            revoked_at,
        )
