"""`layby keys`: create, list and revoke the keys to the door."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.common import (
    StrictCommand,
    Trouble,
    Word,
    current_timing,
    operator_errors,
    settings_from,
    store_options,
    tenant_option,
)
from cli.store import open_client, store_errors

if TYPE_CHECKING:
    from eventstore.api_keys.keyring import Keyring
    from eventstore.domain.api_keys import AccessKey
    from eventstore.settings import Settings

T = TypeVar("T")
DAY_MS = 86_400_000
LONGEST_DAYS = 36_525


class _Days(click.FloatRange):
    """A range that does not hold what is no number: every comparison with that is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            days = float(value)
        except ValueError:
            days = math.nan
        if math.isnan(days):
            self.fail(f"{value!r} is not a number of days.", param, ctx)
        return super().convert(days, param, ctx)


@click.group()
def keys() -> None:
    """Create, list and revoke the keys to the door.

    Servers may run meanwhile: when the command is done, they have heard of it. Once a store has had a key,
    nothing opens without one.
    """


@keys.command(cls=StrictCommand)
@click.option(
    "--name", type=Word("name"), metavar="NAME", required=True, help="What events written with it say: by NAME."
)
@click.option(
    "--scopes",
    type=Word("scopes"),
    required=True,
    metavar="WORD,WORD…",
    help="publish, read, decide, execute, admin, act_as.",
)
@tenant_option("Whose sessions the key opens.")
@click.option(
    "--expires-in-days",
    type=_Days(0, LONGEST_DAYS, min_open=True),
    metavar="DAYS",
    help="From then on it opens nothing. Default: never",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@store_options
def create(
    name: str, scopes: tuple[str, ...], tenant: str, expires_in_days: float | None, as_json: bool, **options: str | None
) -> None:
    """Make a key, and print it this once: the store keeps only a hash of it.

    The key alone goes to stdout, so that a script can take it.
    """
    from eventstore.api_keys.keyring import NameTaken

    lives_ms = None if expires_in_days is None else max(1, round(expires_in_days * DAY_MS))
    try:
        key, text = _with_keyring(options, lambda keyring: keyring.create(name, scopes, tenant, lives_ms), creates=True)
    except NameTaken:
        raise Trouble(f"tenant {tenant} has a key {name} already: choose another name, or revoke that one") from None
    if as_json:
        _print_json({"name": name, "key": text, **_shown(key)})
        return
    seen = sys.stdout.isatty()
    end = ":\n" if seen else "."
    click.echo(f"Key {name} of tenant {tenant}, for {', '.join(key.scopes)}; {_expiry(key)}{end}", err=True)
    click.echo(text)
    what = "\nKeep it now: it is" if seen else "The key itself went to stdout, which is no terminal. Keep it: it is"
    click.echo(f"{what} not shown again. Send it as  Authorization: Bearer <key>", err=True)


@keys.command("list", cls=StrictCommand)
@tenant_option("Only keys of this tenant.", default=None)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@store_options
def list_keys(tenant: str | None, as_json: bool, **options: str | None) -> None:
    """Show all keys, those that open nothing any more among them; never the keys themselves."""
    reading = _with_keyring(options, lambda keyring: keyring.read())
    found = [key for key in (reading.keys or {}).values() if tenant in (None, key.tenant)]
    found.sort(key=lambda key: (key.tenant, key.name, key.created_at))
    if as_json:
        _print_json([{"name": key.name, **_shown(key), **_past(key, reading.now)} for key in found])
    elif found:
        click.echo(_table(found, reading.now))
    elif reading.untouched:
        click.echo("no keys: servers on this store are open, on loopback alone")
    else:
        click.echo(f"tenant {tenant} has no keys")


@keys.command(cls=StrictCommand)
@click.option("--name", type=Word("name"), metavar="NAME", required=True, help="The key to revoke.")
@tenant_option("Whose key it is.")
@store_options
def revoke(name: str, tenant: str, **options: str | None) -> None:
    """Make a key open nothing from now on; what it holds open is cut within five seconds."""
    from eventstore.api_keys.keyring import NoSuchKey

    try:
        _with_keyring(options, lambda keyring: keyring.revoke(name, tenant), changes=True)
    except NoSuchKey:
        raise Trouble(f"tenant {tenant} has no key {name} to revoke; layby keys list shows all") from None
    click.echo(f"key {name} of tenant {tenant} is revoked")


def _with_keyring(
    options: dict[str, str | None],
    work: Callable[[Keyring], Awaitable[T]],
    *,
    creates: bool = False,
    changes: bool = False,
) -> T:
    """Do this with the keyring of the store that is meant. What `creates` may be the first to use that store. After
    what `changes` it, servers are given the time to hear of it: an open door to shut, a key to open nothing."""
    import asyncio  # heavy; only the command that runs needs it

    from eventstore.embedded.engine import is_private

    async def run(settings: Settings) -> T:
        async with _keyring(settings, fresh=creates) as keyring:
            result = await work(keyring)
            _warn(keyring.reached, settings)
            if (creates or changes) and not is_private(settings):
                await asyncio.sleep(current_timing().keys_followed_after_s)
            return result

    with operator_errors():
        settings = settings_from(**options)
        with store_errors(settings, "it"):
            return asyncio.run(run(settings))


def _warn(reached: str | None, settings: Settings) -> None:
    """A change that the engine may still lose is one that the operator has to know of."""
    if reached and not settings.durability.met_by(reached):
        click.echo(
            f"Beware: this has reached {reached}, and not {settings.durability} as the setting durability wants: if the"
            " engine fails now, it may be undone. See to the engine, then look with layby keys list",
            err=True,
        )


@asynccontextmanager
async def _keyring(settings: Settings, *, fresh: bool) -> AsyncGenerator[Keyring]:
    """Of a running server, or of none."""
    from eventstore.api_keys.keyring import Keyring
    from eventstore.redis_client.durability import confirmation
    from eventstore.redis_client.preflight import check_engine

    async with open_client(settings, fresh=fresh) as client:
        await check_engine(client)
        yield Keyring(client, await confirmation(client, settings.durability))


def _shown(key: AccessKey) -> dict[str, object]:
    return {"scopes": list(key.scopes), "tenant": key.tenant, "expires_at": _time(key.expires_at)}


def _past(key: AccessKey, now: int) -> dict[str, object]:
    times = {"created_at": _time(key.created_at), "revoked_at": _time(key.revoked_at)}
    return {**times, "state": _state(key, now)}


def _state(key: AccessKey, now: int) -> str:
    return "live" if key.live_at(now) else "expired" if key.revoked_at is None else "revoked"


def _time(ms: int | None) -> str | None:
    from eventstore.domain.values import timestamps

    return None if ms is None else timestamps.text(ms)


def _minute(ms: int | None) -> str:
    """To the minute, which is as much as a person wants to read."""
    text = _time(ms)
    return "never" if text is None else f"{text[:10]} {text[11:16]}"


def _expiry(key: AccessKey) -> str:
    return "it never expires" if key.expires_at is None else f"it expires {_minute(key.expires_at)} UTC"


def _table(found: list[AccessKey], now: int) -> str:
    rows = [("TENANT", "NAME", "STATE", "SCOPES", "CREATED (UTC)", "EXPIRES (UTC)")]
    rows += [
        (key.tenant, key.name, _state(key, now), ",".join(key.scopes), _minute(key.created_at), _minute(key.expires_at))
        for key in found
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _print_json(value: object) -> None:
    import json

    click.echo(json.dumps(value))
