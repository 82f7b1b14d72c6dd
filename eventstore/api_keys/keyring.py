"""The keys to the door, as the store keeps them: one hash, so that whatever changes together lies in one slot.

    version               a word that is another one after every change
    key:<id>              the record of a key: everything but the key itself, of which there is a hash
    name:<tenant>/<name>  "<id> <expiry in ms; 0: never>" of the newest key of that name, until it is revoked
    revoked:<id>          when a key was revoked, in ms

Nothing is ever taken out but names, so a store that had a key once is known to have had one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eventstore.domain import api_keys
from eventstore.domain.api_keys import AccessKey
from eventstore.domain.errors import StoreUnavailable
from eventstore.domain.values import ids
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.durability import Confirmation
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import KEYRING

READ = scripts.load("eventstore", "read_api_keys", writes=False)
CREATE = scripts.load("eventstore", "create_api_key")
REVOKE = scripts.load("eventstore", "revoke_api_key", urgent=True)
_ATTEMPTS = 8


class NameTaken(Exception):
    """A live key of this tenant has the name."""


class NoSuchKey(Exception):
    """No key of this tenant has the name, or all that had it are revoked."""


@dataclass(frozen=True, slots=True)
class KeyringReading:
    """What the keyring was at a time of the engine's clock. `keys` is None if it is as it was known before."""

    now: int
    version: str
    keys: Mapping[str, AccessKey] | None

    @property
    def untouched(self) -> bool:
        """Whether there never was a key."""
        return not self.version


class Keyring:
    """Creates, lists and revokes keys."""

    def __init__(self, connection: RedisClient, confirmation: Confirmation | None = None) -> None:
        self._connection: RedisClient = connection
        self._confirmation: Confirmation | None = confirmation
        self.reached: str | None = None
        """The durability that the newest change has reached; None without `confirmation`."""

    async def read(self, known: str = "") -> KeyringReading:
        """All keys, or the news that they are still those of the version that is known. Raises `StoreUnavailable`."""
        clock, version, *fields = await self._connection.run(ScriptCall(READ, [KEYRING], [known]))
        if not fields and known:
            return KeyringReading(int(clock), known, None)
        return KeyringReading(int(clock), version.decode(), _keys(fields[0] if fields else []))

    async def create(
        self, name: str, scopes: Iterable[str], tenant: str = api_keys.DEFAULT_TENANT, lives_ms: int | None = None
    ) -> tuple[AccessKey, str]:
        """A new key, and its text, which is told here and never again. A name that is revoked or has expired may be
        used again: it is then another key of the same principal.

        Raises `WrongWord`, `NameTaken`, `StoreUnavailable`, `StoreFull`.
        """
        name, tenant, scopes = api_keys.name(name), api_keys.tenant(tenant), api_keys.scopes(scopes)
        key_id, secret = ids.random_text(60), ids.random_text(260)
        text = api_keys.key_text(key_id, secret)
        now = (await self.read()).now
        expires_at = None if lives_ms is None else now + lives_ms
        key = AccessKey(key_id, name, tenant, scopes, api_keys.digest(text), now, expires_at)
        holder, record = f"{key_id} {expires_at or 0}", key.record()
        reply = await self._run(ScriptCall(CREATE, [KEYRING], [_named(key), holder, f"key:{key_id}", record, _word()]))
        if reply[0] != b"ok":
            raise NameTaken(name)
        return key, text

    async def revoke(self, name: str, tenant: str = api_keys.DEFAULT_TENANT) -> AccessKey:
        """The key that had the name, which opens nothing from now on. Raises `NoSuchKey`, `StoreUnavailable`."""
        for _ in range(_ATTEMPTS):
            field = f"name:{tenant}/{name}"
            holder = await self._connection.command("HGET", KEYRING, field)
            if holder is None:
                raise NoSuchKey(name)
            key_id = holder.decode().split()[0]
            call = ScriptCall(REVOKE, [KEYRING], [field, holder, f"revoked:{key_id}", _word()])
            if (await self._run(call))[0] == b"ok":
                return ((await self.read()).keys or {})[key_id]
        raise StoreUnavailable("the keys change faster than they can be read; try again")

    async def _run(self, call: ScriptCall) -> list[bytes]:
        last = self._confirmation.command if self._confirmation else ()
        reply, *confirmed = await self._connection.run_all([call], last)
        if isinstance(reply, Exception):
            raise reply
        if self._confirmation:
            self.reached = self._confirmation.reached(*confirmed)
        return reply


def _named(key: AccessKey) -> str:
    return f"name:{key.tenant}/{key.name}"


def _word() -> str:
    """A new version. Random, so that two changes that follow from one state, on both sides of a failover, differ."""
    return secrets.token_hex(8)


def _keys(flat: list[bytes]) -> dict[str, AccessKey]:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    found = dict[str, AccessKey]()
    for field, value in fields.items():
        kind, _, key_id = field.decode().partition(":")
        if kind == "key":
            revoked_at = fields.get(b"revoked:" + key_id.encode())
            found[key_id] = AccessKey.read(key_id, value, int(revoked_at) if revoked_at else None)
    return found
