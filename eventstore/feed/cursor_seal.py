"""Closes a cursor, so that it tells its holder nothing and nobody else can make one.

A position in the feed moves with the commits of every tenant, so an open one would tell each tenant how busy the others
are. AES-SIV encrypts and authenticates; the tenant and a random nonce go into it, so that a cursor of another tenant is
garbled, and two cursors of one position are as unlike as any. What it hides is its contents, not their length.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from os import urandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SECRET_BYTES = 32
_NONCE_BYTES = 16
_LONGEST = 1 << 17
_TOKEN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class GarbledCursor(ValueError):
    """The text is no cursor of this tenant in this store."""


class Seal:
    """The seal of one tenant, made with the secret of the store."""

    def __init__(self, secret: bytes, tenant: str) -> None:
        self._cipher: AESSIV = AESSIV(secret)
        self._tenant: bytes = tenant.encode(errors="surrogatepass")

    def close(self, body: bytes) -> str:
        """The body as a token."""
        nonce = urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(body, [self._tenant, nonce])
        return urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, text: str) -> bytes:
        """The body of a token. Raises `GarbledCursor`."""
        raw = _decode(text)
        try:
            return self._cipher.decrypt(raw[_NONCE_BYTES:], [self._tenant, raw[:_NONCE_BYTES]])
        except (InvalidTag, ValueError):  # a ValueError: too short to hold anything
            raise GarbledCursor from None


def _decode(text: str) -> bytes:
    if len(text) > _LONGEST or not _TOKEN.fullmatch(text):
        raise GarbledCursor
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise GarbledCursor from None
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != text:  # bits that say nothing are to be zero
        raise GarbledCursor
    return raw
