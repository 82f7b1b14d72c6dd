from __future__ import annotations

from urllib.parse import urlencode

import pytest

from eventstore.redis_client.node import connect
from eventstore.redis_client.url import WrongAddress, parse
from eventstore.redis_client.url_options import BY_SCHEME


@pytest.mark.parametrize(
    "url",
    [
        "redis://there",
        "redis://[::1]:6380/3",
        "redis://me:p%2Fs%23s@there/",
        "rediss://me:secret@there:1/2?ssl_cert_reqs=none&socket_timeout=0.5&socket_keepalive=True",
        "unix:///run/redis.sock",
        "unix://me:secret@/run/redis.sock?db=3",
        "",
    ],
)
def test_one_redis_is_left_to_redis_py(url: str) -> None:
    assert (parse(url).kind, parse(url).url) == ("single", url)


def test_nodes_of_a_cluster() -> None:
    found = parse("redis+cluster://a:7000,b,[::1]:7002")
    assert (found.kind, list(found.hosts)) == ("cluster", [("a", 7000), ("b", 6379), ("::1", 7002)])
    assert found.url_of(("c", 7003)) == "redis://c:7003/0"
    assert found.url_of(("::1", 7003)) == "redis://[::1]:7003/0"


def test_user_password_and_options_hold_for_every_node() -> None:
    found = parse("redis+cluster://me:p%40,ss@a:7000,b:7001/0?client_name=layby")
    assert list(found.hosts) == [("a", 7000), ("b", 7001)]
    assert found.url_of(("c", 7002)) == "redis://me:p%40,ss@c:7002/0?client_name=layby"


def test_sentinels_and_their_master() -> None:
    found = parse("redis+sentinel://:secret@a,b:26380/main/3?sentinel_username=s&sentinel_password=t&client_name=x")
    assert (found.kind, list(found.hosts), found.master) == ("sentinel", [("a", 26379), ("b", 26380)], "main")
    assert found.url_of(("c", 6379)) == "redis://:secret@c:6379/3?client_name=x"
    assert dict(found.sentinel_credentials) == {"username": "s", "password": "t"}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://me:secret@a:26379", "lacks the master's name"),
        ("redis+sentinel://me:secret@a:26379/", "lacks the master's name"),
        ("redis+sentinel://me:secret@a:26379/main/x", "must be a whole number"),
        ("redis+sentinel://me:secret@/main", "lacks a host"),
        ("redis+cluster://", "lacks a host"),
        ("redis+cluster://me:secret@a:1,", "lacks a host"),
        ("redis+cluster://me:secret@a:x", "the host is a"),
        ("redis+cluster://me:secret@a:", "the host is a"),
        ("redis+cluster://me:secret@a:0", "1 to 65535"),
        ("redis+cluster://me:secret@a:65536", "1 to 65535"),
        ("redis+cluster://me:secret@a:1/1", "database 0 only"),
        ("redis+cluster://me:sec/ret@a:1", "percent-encoded"),
        ("redis+cluster://me:secret@a:1?db=1", "has no option db"),
        ("redis+sentinel://me:secret@a/main?foo=secret", "has no option foo"),
        ("redis+sentinel://me:secret@a/main?socket_timeout=secret", "socket_timeout .* must be seconds"),
        ("redis+sentinel://me:secret@a..b/main", "cannot be read"),
        ("redis://me:secret@a:port", "a port is a number from 1 to 65535"),
        ("redis://me:secret@a:99999", "a port is a number from 1 to 65535"),
        ("redis://me:secret@a:0", "a port is a number from 1 to 65535"),
        ("redis://me:secret@[::1", "cannot be read"),
        ("redis://me:secret@a..b", "cannot be read"),
        ("redis://me:secret#1@a", "percent-encoded"),
        ("redis://me:12?secret@a", "has no option behind"),
        ("redis://me:secret@a/abc", "must be a whole number"),
        ("rediss://me:secret@a/1/2", "must be a whole number"),
        ("redis://me:secret@a?foo=secret", "has no option foo .* client_name"),
        ("redis://me:secret@a?max_connections=1", "has no option max_connections"),
        ("redis://me:secret@a?decode_responses=yes", "has no option decode_responses"),
        ("redis://me:secret@a?ssl_cert_reqs=none", "has no option ssl_cert_reqs"),
        ("rediss://me:secret@a?ssl_cert_reqs=secret", "none, optional or required"),
        ("redis://me:secret@a?socket_timeout=x", "seconds, more than 0"),
        ("redis://me:secret@a?socket_timeout=0.0", "seconds, more than 0"),
        ("redis://me:secret@a?socket_timeout=", "seconds, more than 0"),
        ("redis://me:secret@a?socket_keepalive=secret", "true or false"),
        ("redis://me:secret@a?db=one", "a whole number"),
        ("redis://me:secret@a?client_name=a%20b", "without spaces"),
        ("unix://me:secret@run/redis.sock", "a third slash"),
        ("unix://", "a third slash"),
    ],
)
def test_what_is_wrong_is_one_line_without_the_password(url: str, why: str) -> None:
    with pytest.raises(WrongAddress, match=why) as refused:
        parse(url)
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_redis_py_takes_every_option_that_we_let_pass() -> None:
    values = {"seconds, more than 0": "0.5", "a whole number": "1", "true or false": "no", "a text": "x"}
    values |= {"a name without spaces": "x", "none, optional or required": "none"}
    for scheme, rules in BY_SCHEME.items():
        query = urlencode({name: values[meant] for name, (_, meant) in rules.items()})
        place = "/run/redis.sock" if scheme == "unix" else "there/main" if scheme == "redis+sentinel" else "there"
        address = parse(f"{scheme}://{place}?{query}")
        connect(address.url_of(address.hosts[0]) if address.hosts else address.url).connection_pool.make_connection()
