"""Who serves what in a cluster, as its nodes tell it: one that knows nothing does not speak for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool

from eventstore.redis_client.cluster import Cluster
from eventstore.redis_client.node import AWAY, Node
from eventstore.redis_client.url import Host, UnfitEngine, parse
from eventstore.support.timing import TIMING, Timing

SLOTS = [[0, 16_383, [b"127.0.0.1", 7001, b"id"]]]


class Told(Cluster):
    """A cluster whose nodes answer this, whichever of them is asked first."""

    def __init__(self, *answers: Any, timing: Timing = TIMING) -> None:
        super().__init__(parse("redis+cluster://127.0.0.1:7001,127.0.0.1:7002"), timing)
        self.answers: list[Any] = list(answers)

    async def _ask(self, host: Host) -> list[Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def found(*answers: Any) -> Sequence[str]:
    """The nodes that are known after a look."""

    async def look() -> list[str]:
        cluster = Told(*answers)
        try:
            await cluster.look()
            return [node.name for node in cluster.nodes]
        finally:
            await cluster.close()

    return asyncio.run(look())


@pytest.mark.parametrize(
    "silent",
    [
        redis_errors.ClusterDownError("no slot is served by anybody"),
        redis_errors.BusyLoadingError("LOADING"),
        redis_errors.ConnectionError("refused"),
    ],
)
def test_a_node_that_cannot_tell_now_is_passed_over(silent: Exception) -> None:
    assert found(silent, SLOTS) == ["Redis at 127.0.0.1:7001"]


def test_where_no_node_can_tell_it_may_pass() -> None:
    down = redis_errors.ClusterDownError("no slot is served by anybody")
    with pytest.raises(AWAY):
        found(down, down)


def test_what_is_no_cluster_is_refused_at_once() -> None:
    with pytest.raises(UnfitEngine, match="no node of a cluster"):
        found(redis_errors.ResponseError("This instance has cluster support disabled"), SLOTS)


def test_a_user_who_may_not_ask_is_told_what_to_allow() -> None:
    with pytest.raises(UnfitEngine, match=r"\+cluster\|slots"):
        found(redis_errors.NoPermissionError("no permissions to run 'cluster|slots'"), SLOTS)


# Nodes that are no longer part of it


class Knocked:
    """A node whose connections are counted, and on whose door somebody knocks who hears nothing."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        self.node: Node = cluster.named(("127.0.0.1", port))
        self.pool: BlockingConnectionPool = self.node.client.connection_pool
        self.used: Any = self.pool.make_connection()
        self.pool._in_use_connections.add(self.used)
        self.knocking = self.node._probes.join(None, self._silence)
        self.cut: list[bool] = []
        self.used.disconnect = self._cut

    async def _silence(self) -> Exception | None:
        await asyncio.Event().wait()

    async def _cut(self, *_: Any, **__: Any) -> None:
        self.cut.append(True)


@pytest.mark.parametrize("patience_s", [0.0, 3_600.0])
def test_a_node_that_is_dropped_is_closed_with_all_that_is_left_there(patience_s: float) -> None:
    """After a while; and at the latest when everything is closed."""

    async def drop() -> None:
        cluster = Told(SLOTS, timing=Timing(reply_s=patience_s))
        dropped = Knocked(cluster, 7009)
        await cluster.look()
        assert dropped.node not in cluster.nodes
        if patience_s:
            await asyncio.sleep(0)
            assert not dropped.cut and not dropped.knocking.done(), "what is under way may end"
        else:
            async with asyncio.timeout(20):
                await asyncio.wait(cluster._leaving.values())
            assert dropped.cut and dropped.knocking.done() and not cluster._leaving
        await cluster.close()
        assert dropped.cut and dropped.knocking.cancelled()

    asyncio.run(drop())
