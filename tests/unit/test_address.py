from __future__ import annotations

import pytest

from eventstore.address import WrongAddress, parse


@pytest.mark.parametrize("url", ["redis://there", "rediss://me:secret@there:1/2?x=y", "unix:///run/redis.sock", ""])
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
    ],
)
def test_what_is_wrong_is_one_line_without_the_password(url: str, why: str) -> None:
    with pytest.raises(WrongAddress, match=why) as refused:
        parse(url)
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)
