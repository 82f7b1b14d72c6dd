"""What may stand behind `?` in the URL of the store, and what its value may be.

Not all that redis-py would take: what Layby settles itself, such as the number of connections, would only break it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

_Rule = tuple[re.Pattern[str], str]
_WORD: Final = re.compile("[a-z_]{1,40}")
_TEXT: Final = (re.compile(".+", re.DOTALL), "a text")
_NAME: Final = (re.compile("[!-~]+", re.ASCII), "a name without spaces")
_NUMBER: Final = (re.compile("[0-9]{1,9}", re.ASCII), "a whole number")
_SECONDS: Final = (re.compile(r"(?=.*[1-9])[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII), "seconds, more than 0")
_SWITCH: Final = (re.compile("true|false|yes|no|1|0", re.IGNORECASE), "true or false")
_CERTIFICATES: Final = (re.compile("none|optional|required"), "none, optional or required")

COMMON: Final[Mapping[str, _Rule]] = {
    "client_name": _NAME,
    "username": _TEXT,
    "password": _TEXT,
    "socket_timeout": _SECONDS,
    "socket_connect_timeout": _SECONDS,
    "health_check_interval": _NUMBER,
}
TCP: Final[Mapping[str, _Rule]] = {"socket_keepalive": _SWITCH}
ONE: Final[Mapping[str, _Rule]] = {"db": _NUMBER}
TLS: Final[Mapping[str, _Rule]] = {
    "ssl_ca_certs": _TEXT,
    "ssl_ca_path": _TEXT,
    "ssl_certfile": _TEXT,
    "ssl_keyfile": _TEXT,
    "ssl_password": _TEXT,
    "ssl_cert_reqs": _CERTIFICATES,
    "ssl_check_hostname": _SWITCH,
}
BY_SCHEME: Final[Mapping[str, Mapping[str, _Rule]]] = {
    "redis": COMMON | TCP | ONE,
    "rediss": COMMON | TCP | ONE | TLS,
    "unix": COMMON | ONE,
    "redis+cluster": COMMON | TCP,
    "redis+sentinel": COMMON | TCP,
}


def find_fault(query: str, scheme: str) -> str | None:
    """One line that says what is wrong with the options, if anything is. A value is never repeated: it may be a
    password."""
    allowed = BY_SCHEME.get(scheme, COMMON)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            named = f" {name}" if _WORD.fullmatch(name) else ""  # else it may be the rest of a password
            return f"{scheme}:// has no option{named} behind its ?; there are {', '.join(allowed)}"
        pattern, meant = allowed[name]
        if not pattern.fullmatch(value):
            return f"{name} behind the ? of {scheme}:// must be {meant}"
    return None
