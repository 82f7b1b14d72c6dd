"""Steps that publishers name, through the store."""

from __future__ import annotations

import pytest

from eventstore.domain.errors import CallNotFound, IllegalTransition
from eventstore.event_store import EventStore
from tests.integration.stores import TENANT, create, send
from tests.unit.domain.given import event

pytestmark = pytest.mark.anyio


async def test_a_completed_step_is_remembered_by_every_process(store: EventStore, other: EventStore) -> None:
    await create(store, steps="explicit")
    for n in range(3):
        await send(store, event("step.started", step_id=f"s{n}"), event("step.completed", step_id=f"s{n}"))
    for chosen in (other, store):
        with pytest.raises(IllegalTransition, match="never reopened"):
            await send(chosen, event("step.started", step_id="s1"))
        with pytest.raises(CallNotFound):
            await chosen.call(TENANT, "s1", "/s1")
    await send(other, event("step.started", step_id="s3"))
    assert (await store.head(TENANT, "s1")).session.seq == 8
