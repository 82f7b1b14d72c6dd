"""Why a store could not be used, in one line for the operator."""

from __future__ import annotations

import re
import ssl

import pytest
from redis import exceptions as redis_errors

from eventstore.domain.errors import StoreUnavailable
from eventstore.redis_client.preflight import tell_silence
from eventstore.redis_client.retries import unavailable

CERTIFICATE = ssl.SSLCertVerificationError("self-signed certificate")
RESET = ConnectionResetError(104, "Connection reset by peer")


def because(cause: Exception) -> redis_errors.ConnectionError:
    """As redis-py wraps it."""
    try:
        raise redis_errors.ConnectionError("Error connecting") from cause
    except redis_errors.ConnectionError as error:
        return error


@pytest.mark.parametrize(
    ("url", "cause", "words"),
    [
        ("redis://a", redis_errors.AuthenticationError("wrong."), "refuses the user or the password .*: wrong$"),
        ("redis+sentinel://a/m", because(OSError(111, "refused")), r"does not answer \(Error connecting\): check"),
        ("unix:///a", because(redis_errors.ResponseError("no such database")), "refuses what Layby needs: Error conn"),
        ("redis://a", redis_errors.TimeoutError(), r"does not answer \(TimeoutError\): check .*, and that it runs$"),
        ("redis://a", because(RESET), "whether it wants TLS"),
        ("rediss://a", redis_errors.TimeoutError("Timeout"), r"speaks TLS on that port \(redis:// is without\)$"),
        ("rediss://a", because(CERTIFICATE), "no TLS with Redis: .* certificates"),
        ("rediss://a", because(FileNotFoundError(2, "No such file")), "no TLS with Redis: .* certificates"),
        ("unix:///a", because(FileNotFoundError(2, "No such file")), "does not answer"),
        (None, redis_errors.TimeoutError("Timeout"), "does not answer"),
    ],
)
def test_the_cause_is_told(url: str | None, cause: Exception, words: str) -> None:
    assert re.search(words, tell_silence(unavailable(cause), url))


def test_what_is_no_silence_speaks_for_itself() -> None:
    assert tell_silence(StoreUnavailable("the store takes no writes"), None) == "the store takes no writes"
