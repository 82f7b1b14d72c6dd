"""Points in time."""

from __future__ import annotations

import pytest

from eventstore.domain.values import timestamps
from tests.unit.domain.given import DAY, HOUR, NOON


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-29T12:00:00Z", NOON),
        ("2026-11-29t12:00:00z", NOON),
        ("2026-11-29T12:00:00.5Z", NOON + 500),
        ("2026-11-29T12:00:00.1239Z", NOON + 123),
        ("2026-11-29T12:00:00.123456789012Z", NOON + 123),
        ("2026-11-29T13:00:00+01:00", NOON),
        ("2026-11-29T06:30:00-05:30", NOON),
        ("2026-11-29T12:00:00-00:00", NOON),
        ("2026-11-30T11:59:00+23:59", NOON),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("2000-02-29T00:00:00Z", 951_782_400_000),
    ],
)
def test_any_rfc_3339_time_is_read(text, ms):
    assert timestamps.parse(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-29",
        "2026-11-29T12:00Z",
        "2026-11-29T12:00:00",
        "2026-11-29 12:00:00Z",
        "2026-11-29T12:00:00.Z",
        "2026-11-29T12:00:00,5Z",
        "2026-11-29T24:00:00Z",
        "2026-11-29T12:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-11-29T12:00:00+0100",
        "2026-11-29T12:00:00+24:00",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-11-29T12:00:00Z\n",
        " 2026-11-29T12:00:00Z",
        "٢٠٢٦-11-29T12:00:00Z",
        "+2026-11-29T12:00:00Z",
        "2026-W48-7T12:00:00Z",
    ],
)
def test_anything_else_is_refused_in_the_same_words(text):
    with pytest.raises(ValueError, match=r"^not an RFC 3339 time such as "):
        timestamps.parse(text)


@pytest.mark.parametrize("ms", [NOON, NOON + 1, NOON + 999, 0, -1, NOON + 400 * DAY + HOUR])
def test_what_is_written_is_read_again(ms):
    assert timestamps.parse(timestamps.text(ms)) == ms


def test_times_are_written_in_utc_with_milliseconds():
    assert timestamps.text(NOON + 7) == "2026-11-29T12:00:00.007Z"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"])
def test_the_first_and_the_last_time_that_can_be_written(text):
    assert timestamps.text(timestamps.parse(text)) == text
