"""`layby rebuild`: build the read models anew."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import click

from cli.common import Command, Trouble, operator_errors, settings_from, store_options

if TYPE_CHECKING:
    from eventstore.event_store import EventStore
    from eventstore.settings import Settings


@click.command(cls=Command)
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
    from redis.exceptions import RedisError

    from eventstore.domain.errors import LaybyError
    from projections.projector.generation import FeedTrimmed, GenerationGone
    from projections.projector.lock import LockHeld
    from projections.projector.rebuild import Rebuild

    try:
        async with _store(settings) as store:
            with _progress(await Rebuild(store.connection, store.keys).count()) as progress:
                work = Rebuild(store.connection, store.keys, progress)
                async with work.alone():
                    return await work.all(), store.keys.partitions
    except LockHeld:
        raise Trouble("another rebuild is under way; wait for it (one that was killed gives way in 10 s)") from None
    except (FeedTrimmed, GenerationGone):
        raise Trouble("the store changes faster than it can be read; run it again when there is less to do") from None
    except LaybyError as error:
        raise Trouble(f"stopped half-way, run it again: {error.detail}") from None
    except RedisError as error:
        raise Trouble(f"Redis refuses a part of it: {error}") from None


@asynccontextmanager
async def _store(settings: Settings) -> AsyncGenerator[EventStore]:
    """The store of a running server, or of none. A Redis without one is left as it is."""
    from eventstore.domain.errors import StoreUnavailable
    from eventstore.embedded.engine import engine_url
    from eventstore.event_store import open_store
    from eventstore.redis_client.client import Connection
    from eventstore.redis_client.preflight import tell_silence
    from eventstore.redis_client.url import check_url
    from eventstore.redis_keys import STORE

    logging.getLogger("layby.store").setLevel(logging.CRITICAL)  # the operator hears it from us
    async with engine_url(settings, share=True) as url:
        check_url(url)
        connection = Connection(url)
        try:
            if not await connection.command("EXISTS", STORE):
                raise Trouble("there is no Layby data in this store: check --data-dir or --redis-url")
            store = await open_store(url, settings, start=False)
        except StoreUnavailable as error:
            raise Trouble(tell_silence(error, settings.redis_url)) from None
        finally:
            await connection.close()
        try:
            yield store
        finally:
            await store.close()


@contextmanager
def _progress(total: int) -> Generator[Callable[[int], object]]:
    """A bar where somebody watches, a line elsewhere."""
    if not sys.stderr.isatty():
        click.echo(f"rebuilding {total} sessions", err=True)
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=" sessions", leave=False) as bar:
        yield bar.update
