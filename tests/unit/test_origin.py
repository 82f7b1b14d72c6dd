"""Which requests an open server takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.middleware.origin_check import OriginCheck
from eventstore.domain.errors import UntrustedOrigin


class Door:
    def __init__(self, *, is_open: bool) -> None:
        self.open = is_open


def passes(method: str = "POST", *, is_open: bool = True, **headers: str) -> bool:
    reached = list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    sent = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    door: Any = Door(is_open=is_open)
    nothing: Any = None
    try:
        asyncio.run(OriginCheck(app, door, "My-Box")({"method": method, "headers": sent}, nothing, nothing))
    except UntrustedOrigin:
        assert not reached
        return False
    return bool(reached)


LOCAL = [
    *("localhost", "localhost:8700", "LOCALHOST", "localhost.", "app.localhost:3000", "my-box:8700"),
    *("127.0.0.1", "127.0.0.1:8700", "127.3.2.1:80", "[::1]", "[::1]:8700"),
    "[::ffff:127.0.0.1]:8700",
]
WITHOUT_DOTS = ["layby:8700", "testserver", "my_other-box2"]
FOREIGN = [
    *("evil.example", "evil.example:8700", "127.0.0.1.evil.example", "localhost.evil.example"),
    *(
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "[fe80::1]:8700",
        "",
        ":8700",
        "a@localhost",
        "localhost/x",
        "lo\xe9",
        "127.1.evil",
        "2130706433",
        "[::ffff:10.0.0.1]",
    ),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("host", [*LOCAL, *WITHOUT_DOTS])
def test_this_machine_may_be_called_so(method, host):
    assert passes(method, host=host)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_leads_here_from_elsewhere_is_refused(method, host):
    assert not passes(method, host=host)
    assert passes(method, host=host, is_open=False), "a server with keys checks keys"


@pytest.mark.parametrize("host", LOCAL)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_this_machine_may_change_things(host, scheme):
    assert passes(host="localhost", origin=f"{scheme}://{host}", sec_fetch_site="cross-site")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "origin", ["null", "", "localhost", "file://", *(f"https://{host}" for host in [*FOREIGN, *WITHOUT_DOTS])]
)
def test_a_page_of_another_host_may_not(method, origin):
    assert not passes(method, host="localhost", origin=origin)
    assert passes("GET", host="localhost", origin=origin), "a browser keeps the answer from it"
    assert passes(method, host="localhost", origin=origin, is_open=False)


@pytest.mark.parametrize(("site", "allowed"), [("cross-site", False), ("same-origin", True), ("none", True)])
def test_where_a_browser_says_no_origin_it_says_what_kind(site, allowed):
    assert passes(host="localhost", sec_fetch_site=site) == allowed


def test_what_is_no_browser_says_nothing_of_it():
    assert passes() and passes(host="localhost")
