"""The store that an offline command works on: opening it, what can go wrong with it, and the progress of the work.

It may be that of a running server, whose engine the command then shares, or of none.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import click

from cli.common import Trouble, current_timing

if TYPE_CHECKING:  # redis is loaded by the command that runs, not by --help
    from eventstore.redis_client.client import RedisClient
    from eventstore.redis_keys import Keys
    from eventstore.settings import Settings


@asynccontextmanager
async def open_client(settings: Settings, *, fresh: bool = False) -> AsyncGenerator[RedisClient]:
    """A client of the store that the settings name. `fresh`: an embedded engine may make its data directory.

    Raises `EngineError`, `UnfitEngine`.
    """
    from eventstore.embedded.engine import engine_url
    from eventstore.redis_client.client import RedisClient
    from eventstore.redis_client.url import check_url

    logging.getLogger("layby.store").setLevel(logging.CRITICAL)  # the command itself reports what goes wrong
    async with engine_url(settings, share=True, fresh=fresh) as url:
        check_url(url)
        client = RedisClient(url, timing=current_timing())
        try:
            yield client
        finally:
            await client.close()


async def existing_keys(client: RedisClient) -> Keys:
    """The Redis keys of a store that is there; nothing is written. Raises `Trouble`, `StoreUnavailable`."""
    from eventstore.redis_keys import STORE, Keys

    partitions = await client.command("HGET", STORE, "partitions")
    if partitions is None:
        raise Trouble("there is no Layby data in this store: check --data-dir or --redis-url")
    return Keys(int(partitions))


@contextmanager
def store_errors(settings: Settings, refused: str, *, half_way: str = "") -> Generator[None]:
    """Turn what can go wrong with a store into one line for the operator.

    `refused` says what Redis refuses, as in "Redis refuses to be read"; `half_way` stands before the detail of a
    problem that ends the work in the middle.
    """
    from redis.exceptions import RedisError

    from eventstore.domain.errors import LaybyError, StoreUnavailable
    from eventstore.redis_client.preflight import tell_silence

    try:
        yield
    except StoreUnavailable as error:
        raise Trouble(f"{half_way}{error.detail}" if half_way else tell_silence(error, settings.redis_url)) from None
    except LaybyError as error:
        raise Trouble(f"{half_way}{error.detail}") from None
    except RedisError as error:
        raise Trouble(f"Redis refuses {refused}: {error}") from None


@contextmanager
def progress(total: int, announcement: str = "") -> Generator[Callable[[int], object]]:
    """A progress bar of sessions on a terminal; elsewhere the announcement alone, if there is one."""
    if not sys.stderr.isatty():
        if announcement:
            click.echo(announcement, err=True)
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=" sessions", leave=False) as bar:
        yield bar.update
