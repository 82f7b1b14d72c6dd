"""Where an Idempotency-Key is held before anybody knows which session it goes to."""

from __future__ import annotations

import pytest

from eventstore.commit.batch import Retry
from eventstore.commit.idempotency_keys import HeldKey, IdempotencyKeys
from eventstore.commit.records import delete_call
from eventstore.domain.errors import IdempotencyKeyReused
from eventstore.redis_client.pipeline import ScriptPipeline
from tests.scripts.given import FEED_KEEP, KEYS, S1, Server, first

pytestmark = pytest.mark.anyio
ONE, OTHER = Retry("field", "body"), Retry("field", "another body")
PLACES = ["s1", "s2"]


@pytest.fixture
def anchors(server: Server) -> IdempotencyKeys:
    return IdempotencyKeys(ScriptPipeline(server.connection), KEYS)


async def test_the_first_holds_the_key_and_its_retry_learns_for_which_session(anchors: IdempotencyKeys) -> None:
    assert await anchors.hold("default", PLACES, ONE, "x") == HeldKey("s1", "x")
    assert await anchors.hold("default", PLACES, ONE, "y") == HeldKey("s1", "x"), "as after a crash before the commit"
    with pytest.raises(IdempotencyKeyReused):
        await anchors.hold("default", PLACES, OTHER, "x")


async def test_a_key_that_is_given_free_can_be_held_anew(anchors: IdempotencyKeys, server: Server) -> None:
    held = await anchors.hold("default", PLACES, ONE, "x")
    assert held
    await anchors.release("default", held, OTHER)
    assert await anchors.hold("default", PLACES, ONE, "y") == held, "somebody else's is left alone"
    await anchors.release("default", held, ONE)
    assert not await server.client.exists(S1.dedup, S1.dedup_age)
    assert await anchors.hold("default", PLACES, OTHER, "y") == HeldKey("s1", "y")


async def test_a_creation_without_an_id_meets_the_anchor_as_a_retry_record(
    anchors: IdempotencyKeys, server: Server
) -> None:
    await anchors.hold("default", PLACES, ONE, "x")
    reply = await server.put(await first(server, records={"field": "{}"}))
    assert reply[0] == b"replay"


async def test_a_session_whose_record_was_forgotten_gives_its_place_to_the_next(
    anchors: IdempotencyKeys, server: Server
) -> None:
    head = await server.ok(await first(server))
    assert await anchors.hold("default", PLACES, ONE, "x") == HeldKey("s2", "x")
    await server.connection.run(delete_call(S1, head, FEED_KEEP, "token"))
    assert await anchors.hold("default", PLACES, ONE, "x") == HeldKey("s2", "x")
    assert await anchors.hold("default", ["s1"], ONE, "x") is None, "no place is left"


async def test_a_session_that_is_its_own_place_needs_no_anchor(anchors: IdempotencyKeys, server: Server) -> None:
    assert await anchors.hold("default", PLACES, ONE, "s1") is None
    assert not await server.client.exists(S1.dedup)


async def test_an_anchor_that_has_passed_counts_no_more(anchors: IdempotencyKeys, server: Server) -> None:
    await anchors.hold("default", PLACES, ONE, "x")
    await server.client.zadd(S1.dedup_age, {"field": await server.now() - 1})
    assert await anchors.hold("default", PLACES, OTHER, "y") == HeldKey("s1", "y")
