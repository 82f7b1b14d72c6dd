"""Each script runs on fakeredis and on a real Valkey, and leaves no key without a reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import fakeredis
import pytest

from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.node import Node
from eventstore.redis_client.topology import SingleNode
from tests.scripts import leaks
from tests.scripts.engines import HeldEngine, cluster_node, held_engine
from tests.scripts.given import Server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[HeldEngine]:
    with held_engine(tmp_path_factory.mktemp("engine")) as held:
        yield held


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with cluster_node(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture
async def valkey(engine: HeldEngine) -> AsyncGenerator[Server]:
    """The real server, empty."""
    connection = RedisClient(engine.url)
    await connection.client.flushall()
    server = Server(connection, real=True)
    yield server
    await leaks.check(server.client, server.keys)
    await connection.close()


@pytest.fixture
async def fake() -> AsyncGenerator[Server]:
    connection = RedisClient("", topology=SingleNode(Node(fakeredis.FakeAsyncRedis(), plain_scripts=True)))
    server = Server(connection, real=False)
    yield server
    await leaks.check(server.client, server.keys)
    await connection.close()


@pytest.fixture(params=["fakeredis", "valkey"])
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue("fake" if request.param == "fakeredis" else "valkey")
