"""The head of an answer waits for its body, and no longer than that."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from api.transport.response_writer import HeadWithBody
from tests.unit.connections import Transport

pytestmark = pytest.mark.anyio


def outlet(transport: Transport) -> HeadWithBody:
    return HeadWithBody(asyncio.get_running_loop(), cast(Any, transport))


async def test_a_head_leaves_with_the_body_or_alone_when_none_follows_at_once():
    with_body, alone = Transport(), Transport()
    one, other = outlet(with_body), outlet(alone)
    one.write(b"head ")
    other.write(b"head")
    assert (with_body.sent, alone.sent) == (b"", b"")
    one.write(b"body")
    assert with_body.sent == b"head body"
    await asyncio.sleep(0)
    assert (with_body.sent, alone.sent) == (b"head body", b"head")


async def test_a_head_that_leaves_with_the_connection_is_not_kept_back():
    transport = Transport()
    one = outlet(transport)
    one.write(b"head")
    one.close()
    assert (transport.sent, transport.closed) == (b"head", True)


async def test_a_head_is_not_written_to_a_connection_that_was_lost_meanwhile():
    faults, loop = list[Any](), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    transport = Transport()
    outlet(transport).write(b"head")
    transport.closed = True
    await asyncio.sleep(0)
    assert (transport.sent, faults) == (b"", [])
