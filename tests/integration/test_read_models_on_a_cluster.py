"""On a cluster a script sees the keys of one slot alone, and only those that it was told of."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from projections.projector.rebuild import Rebuild
from tests.integration.models import check, inbox, names, session_ids, snapshot
from tests.integration.stores import TENANT, chosen, client_of, close, create, models_of, open_at, send
from tests.scripts.engines import cluster_node
from tests.unit.domain.given import approve, ask, connect, turn

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with cluster_node(tmp_path_factory.mktemp("cluster")) as url:
        yield url


async def test_every_read_and_every_write_keeps_to_one_slot(cluster_url: str):
    store = await open_at(cluster_url, chosen(partitions=8), start=False)
    models = models_of(store)
    try:
        for n in range(20):
            await create(store, f"s{n}", agent="ann")
            await send(store, turn(), ask("c1"), ask("c2"), connect("a1"), session_id=f"s{n}")
            await send(store, approve("c1"), session_id=f"s{n}")
        assert len(await names(models, limit=7)) == 40
        assert len(await session_ids(models, limit=7, status="waiting")) == 20
        assert (await inbox(models, status="APPROVED_EXECUTING", agent="ann", tool_name="refund"))["total"] == 20
        assert await models.newest_authorization(TENANT, "a1") == "s19"
        assert (await snapshot(models, "s3"))["calls_total"] == 3
        assert await models.calls(TENANT, "s3", 2, None)
        await store.delete(TENANT, "s4")
        assert len(await session_ids(models, limit=1_000)) == 19
        await check(models, store)
        await Rebuild(client_of(store), store.keys).all()
        await check(models, store)
    finally:
        await close(store)
