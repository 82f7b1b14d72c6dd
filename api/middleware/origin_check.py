"""An open server is open to this machine, not to every web page that a browser on this machine shows.

Without keys nothing else tells a page of somebody else from the developer: it may send a POST to a loopback address
without asking (a form can), or open a WebSocket, and by a name of its own that resolves there it could read the answers
too.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.authentication import Authenticator
from api.transport.websocket_handshake import wishes
from eventstore.domain.errors import UntrustedOrigin

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WITHOUT_DOTS: Final = re.compile(r"[a-z][a-z0-9_-]*(?::\d{0,5})?", re.ASCII | re.IGNORECASE)
"""A service of a container, an alias of this machine. Nobody can register such a name, so no stranger's page has it."""
_USUAL_HOST: Final = 256
"""Longer ones, of so many bytes, are judged each time, and not remembered."""
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]/@]+))(?::\d{0,5})?", re.ASCII)


class OriginCheck:
    """Wraps the application. As long as the door needs no key, it raises `UntrustedOrigin` for requests that name
    another host, and for those that come from a page of another host and would change something."""

    def __init__(self, app: ASGIApp, door: Authenticator, host: str) -> None:
        """`host` is where the server was told to listen, by whatever name."""
        self._app: ASGIApp = app
        self._door: Authenticator = door
        self._host: str = host.lower()
        self._is_ours: Callable[[bytes], bool] = lru_cache(maxsize=256)(self._judge)  # most name the same, each time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._door.open:
            self._check(scope)
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        origin = fetched = None
        for name, value in scope["headers"]:
            if name == b"host" and not (self._is_ours if len(value) <= _USUAL_HOST else self._judge)(value):
                raise UntrustedOrigin(
                    "an open server is reached as localhost, by a loopback address or by a name without dots; Host is"
                    + " none of these"
                )
            if name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"sec-fetch-site":
                fetched = value
        if scope["method"] in _READING and not wishes(scope):
            return
        if fetched == b"cross-site" if origin is None else not self._is_local(origin.partition("://")[2]):
            raise UntrustedOrigin("a page of another host may change nothing on an open server; make a key for it")

    def _judge(self, host: bytes) -> bool:
        place = host.decode("latin-1")
        return _WITHOUT_DOTS.fullmatch(place) is not None or self._is_local(place)

    def _is_local(self, place: str) -> bool:
        """Whether a host, with or without a port, is this machine."""
        found = _HOST.fullmatch(place)
        if found is None:
            return False
        name = (found[1] or found[2]).lower().removesuffix(".")
        if name in ("localhost", self._host) or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback
