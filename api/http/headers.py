"""Conditional requests and idempotency keys: the headers that change what a request means."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from starlette.requests import Request

from api.http.authentication import Principal
from api.http.json_schema import text
from api.http.parameter_types import RequestHeader
from api.http.query_parameters import seq
from eventstore.commit.batch import Retry
from eventstore.commit.records import RETRY_KEPT_MS
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.values import json_text

ANY_VERSION: Final = "*"
KEY_MAX: Final = 200
"""The longest `Idempotency-Key`, in characters."""
_KEY: Final = re.compile(rf"[ -~]{{1,{KEY_MAX}}}", re.ASCII)
_STRONG: Final = re.compile(r'"[0-9]+"', re.ASCII)
ETAG_PATTERN: Final = f"^{_STRONG.pattern}$"
_ETAG = re.compile(r'(?:W/)?"[!#-~\x80-\xff]*"')

IF_MATCH: Final = RequestHeader(
    "If-Match", "The version that the session must be at.", text(pattern=ETAG_PATTERN, examples=['"7"'])
)
IF_NONE_MATCH: Final = RequestHeader("If-None-Match", "The version that is known already.", text())
IDEMPOTENCY_KEY: Final = RequestHeader(
    "Idempotency-Key",
    f"For {RETRY_KEPT_MS // 3_600_000} hours the same key with the same body answers what the first request did.",
    text(pattern=f"^{_KEY.pattern}$"),
)


def header(request: Request, name: str) -> str | None:
    """The value, of a repeated header all of them by comma."""
    wanted = name.lower().encode()
    found = [value for key, value in request.scope["headers"] if key == wanted]
    return b", ".join(found).decode("latin-1") if found else None


def expected_versions(request: Request) -> list[int] | None:
    """The versions that `If-Match` takes; None where any will do."""
    value = header(request, IF_MATCH.name)
    if value is None or value.strip() == ANY_VERSION:
        return None
    found = [_STRONG.fullmatch(item.strip()) for item in value.split(",")]
    versions = [seq(match[0].strip('"')) for match in found if match]
    if len(versions) != len(found):
        raise InvalidRequest.header(IF_MATCH.name, 'must be a version such as "7", or *')
    return versions


def etag(seq: int) -> str:
    return f'"{seq}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether `If-None-Match` names this version (weakly, as RFC 9110 has it)."""
    value = header(request, IF_NONE_MATCH.name)
    if value is None:
        return False
    if value.strip() == ANY_VERSION:
        return True
    tags = [item.strip() for item in value.split(",")]
    if not all(map(_ETAG.fullmatch, tags)):
        raise InvalidRequest.header(IF_NONE_MATCH.name, 'must be versions such as "7", or *')
    return tag in (item.removeprefix("W/") for item in tags)


def idempotency_key(request: Request) -> str | None:
    """The key as it was sent. Raises `InvalidRequest`."""
    value = header(request, IDEMPOTENCY_KEY.name)
    if value is not None and not may_be_key(value):
        raise InvalidRequest.header(IDEMPOTENCY_KEY.name, f"must be 1 to {KEY_MAX} printable ASCII characters")
    return value


def may_be_key(value: str) -> bool:
    """Whether a key can look like this."""
    return _KEY.fullmatch(value) is not None


def retry_sources(path: str, principal: Principal, key: str) -> list[str]:
    """What a key belongs to: the same key on another path, or from somebody else, is another one."""
    actor = principal.actor
    return [principal.tenant, actor.name, actor.via or "", path, key]


def retry_of(request: Request, principal: Principal, key: str | None, body: bytes) -> Retry | None:
    """The request's `Idempotency-Key` as the store keeps it, if it has one."""
    return None if key is None else keyed(request.scope["path"], principal, key, body)


def keyed(path: str, principal: Principal, key: str, body: bytes) -> Retry:
    """A key as the store keeps it."""
    sources = json_text.dumps(retry_sources(path, principal, key))
    return Retry(sha256(sources.encode()).hexdigest(), sha256(body).hexdigest())
