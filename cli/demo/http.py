"""What the demo asks of its server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cli.common import Trouble


def post(url: str, body: Any, actor: str | None = None) -> dict[str, Any]:
    """Post JSON; gives the JSON of the answer. Raises `Trouble`."""
    headers = {"Content-Type": "application/json", **({"Layby-Actor": actor} if actor else {})}
    return json.loads(b"".join(_request(url, json.dumps(body).encode(), headers)))


def stream(url: str) -> Iterator[bytes]:
    """The lines of a stream, as they come. Raises `Trouble`."""
    return _request(url, None, {})


def _request(url: str, body: bytes | None, headers: dict[str, str]) -> Iterator[bytes]:
    """The lines of an answer, as they come. Raises `Trouble` for any refusal."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(Request(url, body, headers)) as answer:
            yield from answer
    except HTTPError as error:
        with error:
            raise Trouble(json.loads(error.read())["detail"]) from None
    except (OSError, HTTPException) as error:
        raise Trouble(f"the demo's server has ended ({error})") from None
