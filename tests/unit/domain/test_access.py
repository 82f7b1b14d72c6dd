"""Keys to the door: the words they may have, and how one is told from a guess."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eventstore.domain import api_keys
from eventstore.domain.api_keys import SCOPES, AccessKey, WrongWord
from eventstore.domain.values import ids

TEXT = api_keys.key_text("0123456789ab", "s" * 52)
KEY = AccessKey("0123456789ab", "svc", "acme", ("read",), api_keys.digest(TEXT), created_at=1_000)


def test_a_key_names_itself():
    for _ in range(100):
        key_id, secret = ids.random_text(60), ids.random_text(260)
        assert (len(key_id), len(secret)) == (12, 52)
        assert api_keys.id_of(api_keys.key_text(key_id, secret)) == key_id


@pytest.mark.parametrize(
    "text", ["", "wrong", TEXT[:-1], TEXT + "s", TEXT.upper(), TEXT + "\n", f" {TEXT}", "layby_" * 9]
)
def test_what_is_no_key_has_no_id(text: str):
    assert api_keys.id_of(text) is None


def test_a_key_opens_for_itself_alone():
    assert KEY.opens_for(TEXT)
    assert not any(map(KEY.opens_for, (TEXT[:-1] + "t", TEXT[:-1], "", "é")))


def test_what_is_stored_does_not_hold_the_key():
    assert "s" * 52 not in KEY.record() and "s" * 52 not in repr(KEY)
    assert AccessKey.read(KEY.key_id, KEY.record().encode(), None) == KEY


@pytest.mark.parametrize(
    ("key", "now", "live"),
    [
        (KEY, 10**15, True),
        (replace(KEY, expires_at=2_000), 1_999, True),
        (replace(KEY, expires_at=2_000), 2_000, False),
        (replace(KEY, revoked_at=1_500), 1_000, False),
        (replace(KEY, revoked_at=1_500, expires_at=2_000), 1_999, False),
    ],
)
def test_it_is_live_until_it_expires_or_is_revoked(key: AccessKey, now: int, live: bool):
    assert key.live_at(now) is live


def test_it_may_what_its_scopes_say():
    assert KEY.may("read") and KEY.may(api_keys.ANY)
    assert not any(KEY.may(scope) for scope in SCOPES if scope != "read")


@pytest.mark.parametrize("name", ["svc", "only-read", "a", "0", "anna.b@example.org", "a+b_c", "x" * 100])
def test_a_good_name(name: str):
    assert api_keys.name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "a b", "a:b", "a/b", "ä", "a\n", "x" * 101, "layby", "Layby", "anonymous"]
)
def test_a_bad_name_is_told(name: str):
    with pytest.raises(WrongWord, match=r"name for a key|can be called"):
        api_keys.name(name)


@pytest.mark.parametrize("tenant", ["", "a:b", "a{b", "a}b", "a/b", "a b", "-a", "é", "a\n", "x" * 65])
def test_a_bad_tenant_is_told(tenant: str):
    with pytest.raises(WrongWord, match="is no tenant"):
        api_keys.tenant(tenant)


def test_a_good_tenant():
    assert [api_keys.tenant(name) for name in ("default", "acme", "a.b_c-9", "x" * 64)]


def test_scopes_stand_once_and_in_order():
    assert api_keys.scopes(["act_as", "read", "publish", "read"]) == ("publish", "read", "act_as")


@pytest.mark.parametrize("words", [["fly"], ["read", ""], [], ["Read"]])
def test_wrong_scopes_are_told_which_there_are(words: list[str]):
    with pytest.raises(WrongWord, match="the scopes are publish, read, decide, execute, admin, act_as"):
        api_keys.scopes(words)
