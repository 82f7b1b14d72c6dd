"""Who serves what in a cluster, as its nodes tell it: one that knows nothing does not speak for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis import exceptions as redis_errors

from eventstore.address import Host, UnfitEngine, parse
from eventstore.cluster import Cluster
from eventstore.node import AWAY

SLOTS = [[0, 16_383, [b"127.0.0.1", 7001, b"id"]]]


class Told(Cluster):
    """A cluster whose nodes answer this, whichever of them is asked first."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(parse("redis+cluster://127.0.0.1:7001,127.0.0.1:7002"))
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
