"""Where the server listens: on loopback alone, if its door is open to everyone."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence


class CannotListen(Exception):
    """The message is one line for the operator."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of the host, not listening yet. Port 0 takes one free port for all of them.

    Raises `CannotListen`.
    """
    addresses = _resolve(host)
    bound = list[socket.socket]()
    for address in addresses:
        try:
            bound.append(_bind(address, bound[0].getsockname()[1] if bound else port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and address != addresses[-1]:
                continue  # `localhost` may name ::1 where there is no IPv6
            if error.errno == errno.EADDRNOTAVAIL and bound:
                break
            close(bound)
            raise explain(error, host, port) from None
    return bound


def check_open(sockets: Sequence[socket.socket], host: str) -> None:
    """Whether a server whose door is open may listen there. Nobody gets in before: these sockets do not listen yet.

    Raises `CannotListen`.
    """
    if not all(_is_loopback(listener.getsockname()[0]) for listener in sockets):
        raise CannotListen(
            f"{host} is not a loopback address, and this store has no key yet, so that everyone who reaches the server"
            " could do everything: make a key first (layby keys create --help tells how), or use --host 127.0.0.1"
        )


def explain(error: OSError, host: str, port: int) -> CannotListen:
    if error.errno == errno.EADDRINUSE:
        return CannotListen(f"port {port} on {host} is in use: stop what uses it, or choose another --port")
    return CannotListen(f"cannot listen on port {port} of {host}: {error.strerror or error}")


def url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def close(sockets: Sequence[socket.socket]) -> None:
    for listener in sockets:
        listener.close()


def _resolve(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotListen(f"{host} is no address of this machine; use --host 127.0.0.1 for loopback") from None
    v4_first = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(address[0]) for *_, address in v4_first))


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _bind(address: str, port: int) -> socket.socket:
    v6 = ":" in address
    listener = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if v6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
