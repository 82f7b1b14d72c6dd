"""Settings: where a value comes from, and what an operator hears about a wrong one."""

from pathlib import Path

import pytest

from eventstore.settings import DAY_MS, Durability, SettingsError, load_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "PORT", "DATA_DIR", "REDIS_URL", "DEFAULT_EXPIRY_MS", "MAX_EXPIRY_MS", "DURABILITY"):
        monkeypatch.delenv(f"LAYBY_{name}", raising=False)


def test_the_defaults_are_those_of_the_protocol() -> None:
    settings = load_settings({})
    assert (settings.host, settings.port) == ("127.0.0.1", 8700)
    assert settings.data_dir == Path("layby-data")
    assert settings.redis_url is None
    assert (settings.default_expiry_ms, settings.max_expiry_ms) == (DAY_MS, 30 * DAY_MS)
    assert settings.durability == Durability("fsync")


def test_the_environment_beats_the_default_and_the_command_line_beats_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAYBY_PORT", "9001")
    monkeypatch.setenv("LAYBY_HOST", "::1")
    settings = load_settings({"port": "9002", "host": None})
    assert (settings.host, settings.port) == ("::1", 9002)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYBY_REDIS_URL", "")
    assert load_settings({}).redis_url is None


def test_a_variable_may_be_written_in_any_case_and_another_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("layby_port", "9001")
    monkeypatch.setenv("LAYBY_KEY", "somebody else's")
    assert load_settings({}).port == 9001


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("memory", Durability("memory")),
        ("fsync", Durability("fsync")),
        ("replicated:2", Durability("replicated", 2)),
    ],
)
def test_a_durability_is_read_and_written_the_same(text: str, meant: Durability) -> None:
    assert load_settings({"durability": text}).durability == meant
    assert str(meant) == text


@pytest.mark.parametrize("scheme", ["redis://", "rediss://", "unix://", "redis+cluster://", "redis+sentinel://"])
def test_every_scheme_of_the_protocol_is_taken(scheme: str) -> None:
    assert load_settings({"redis_url": f"{scheme}there"}).redis_url == f"{scheme}there"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("port", "http", "0 (any free port) to 65535"),
        ("port", "65536", "0 (any free port) to 65535"),
        ("redis_url", "http://there", "redis+sentinel://"),
        ("default_expiry_ms", "1.5", "whole number"),
        ("max_expiry_ms", "0", "whole number of milliseconds from 1"),
        ("durability", "replicated", "replicated:<n>"),
        ("durability", "replicated:0", "replicated:<n>"),
        ("host", "", "an address"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings({name: value})
    line = str(error.value)
    assert line.startswith(f"--{name.replace('_', '-')} ")
    assert allowed in line
    assert "\n" not in line


def test_a_wrong_variable_is_named_as_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYBY_DURABILITY", "sometimes")
    with pytest.raises(SettingsError, match=r"^LAYBY_DURABILITY is 'sometimes'; it must be memory"):
        load_settings({"port": "8700"})


def test_a_wrong_redis_url_is_not_repeated_since_it_may_hold_a_password() -> None:
    with pytest.raises(SettingsError) as error:
        load_settings({"redis_url": "http://me:secret@there"})
    assert "secret" not in str(error.value)
    assert "secret" not in repr(load_settings({"redis_url": "redis://me:secret@there"}))


def test_a_default_expiry_beyond_the_maximum_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"5000.*must not exceed.*4000"):
        load_settings({"default_expiry_ms": "5000", "max_expiry_ms": "4000"})


def test_a_default_expiry_that_nobody_chose_follows_a_lower_maximum() -> None:
    assert load_settings({"max_expiry_ms": "4000"}).default_expiry_ms == 4000


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("PARTITIONS", "0", "it must be a whole number from 1 to 4096"),
        ("FEED_KEEP", "99", "it must be a whole number from 100"),
        ("MAX_PENDING", "0", "it must be a whole number from 1"),
        ("BODY_BYTES", "1", "it must be a whole number of bytes from 8388608"),
    ],
)
def test_what_is_allowed_is_told_without_notes(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    monkeypatch.setenv(f"LAYBY_{name}", value)
    with pytest.raises(SettingsError) as error:
        load_settings({})
    assert str(error.value) == f"LAYBY_{name} is '{value}'; {line}"
