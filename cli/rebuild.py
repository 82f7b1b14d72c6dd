"""`layby rebuild`: build the read models anew."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from cli.common import StrictCommand, Trouble, operator_errors, settings_from, store_options
from cli.store import existing_keys, open_client, progress, store_errors

if TYPE_CHECKING:
    from eventstore.settings import Settings


@click.command(cls=StrictCommand)
@store_options
def rebuild(**options: str | None) -> None:
    """Build snapshots, lists and the inbox anew from the events, which stay as they are.

    Servers may run meanwhile: they show the old ones until the new ones are whole.
    """
    import asyncio  # heavy; only the command that runs needs it

    with operator_errors():
        began = time.monotonic()
        sessions, partitions = asyncio.run(_rebuild(settings_from(**options)))
    took = time.monotonic() - began
    click.echo(f"rebuilt {sessions} sessions in {partitions} partitions ({took:.1f} s)")


async def _rebuild(settings: Settings) -> tuple[int, int]:
    """How many sessions in how many partitions."""
    from eventstore.redis_client.preflight import check_engine
    from projections.projector.generation import FeedTrimmed, GenerationGone
    from projections.projector.lock import LockHeld
    from projections.projector.rebuild import Rebuild

    try:
        async with open_client(settings) as client:
            with store_errors(settings, "a part of it"):
                keys = await existing_keys(client)
                await check_engine(client)
            with store_errors(settings, "a part of it", half_way="stopped half-way, run it again: "):
                sessions = await Rebuild(client, keys).count()
                with progress(sessions, f"rebuilding {sessions} sessions") as step:
                    work = Rebuild(client, keys, step)
                    async with work.alone():
                        return await work.all(), keys.partitions
    except LockHeld:
        raise Trouble("another rebuild is under way; wait for it (one that was killed gives way in 10 s)") from None
    except (FeedTrimmed, GenerationGone):
        raise Trouble("the store changes faster than it can be read; run it again when there is less to do") from None
