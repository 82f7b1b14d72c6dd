"""`layby verify`: show that nobody has changed what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from cli.common import StrictCommand, Trouble, operator_errors, settings_from, store_options, tenant_option
from cli.store import existing_keys, open_client, progress, store_errors

if TYPE_CHECKING:
    from eventstore.api_keys.keyring import Keyring
    from eventstore.feed.divergence import Divergence
    from eventstore.log.hash_chain import Verdict, Verifier
    from eventstore.settings import Settings

BROKEN, LOST = 1, 3


@click.command(cls=StrictCommand)
@click.argument("session", required=False)
@tenant_option("Whose sessions.")
@click.option(
    "--acknowledge", is_flag=True, help="Forget the losses that it tells of, for all tenants: they are seen to."
)
@store_options
@click.pass_context
def verify(ctx: click.Context, session: str | None, tenant: str, acknowledge: bool, **options: str | None) -> None:
    """Recompute the hash chain of SESSION, or of every session, from its events alone; and tell which acknowledged
    events the store is known to have lost.

    Ends with 0 if all are intact, 1 if one is broken, 2 if it could not be found out, 3 if all are intact but
    acknowledged events were lost. Servers may run meanwhile.
    """
    import asyncio

    tally = Tally()
    with operator_errors():
        asyncio.run(_verify(settings_from(**options), tenant, session, tally, acknowledge=acknowledge))
    click.echo(str(tally))
    ctx.exit(BROKEN if tally.broken else LOST if tally.losses and not acknowledge else 0)


@dataclass
class Tally:
    """What was looked at so far. Tells of each broken session at once."""

    sessions: int = 0
    events: int = 0
    broken: int = 0
    losses: int = 0

    def lost(self, loss: Divergence, tenant: str) -> None:
        """One that a server, or a reader with a cursor, has noticed. Sessions are named to their own tenant."""
        from eventstore.domain.values import timestamps
        from eventstore.feed.cursor import NONE

        self.losses += 1
        since = "from the beginning" if loss.common == NONE else f"after {timestamps.text(loss.common[0])}"
        known = [one for one in loss.sessions if one.tenant == tenant]
        _tell(
            f"partition {loss.partition} has lost acknowledged events, {since};"
            f" noticed at {timestamps.text(loss.noticed)};"
            f" sessions known to be hit: {len(loss.sessions)}, of {tenant}: {len(known)}"
        )
        for one in known:
            what = f"events, at least {one.common + 1} to {one.acknowledged}" if one.acknowledged else "its deletion"
            _tell(f"  {one.session_id} has lost {what}")

    def add(self, verdict: Verdict) -> None:
        self.sessions += 1
        self.events += verdict.events
        if verdict.broken:
            self.broken += 1
            _tell(f"{verdict.session_id} is broken at seq {verdict.broken.seq}: {verdict.broken.why}")

    def __str__(self) -> str:
        result = f"{_many(self.broken, 'session')} broken" if self.broken else "intact"
        if self.losses:
            result += f"; acknowledged events were lost in {_many(self.losses, 'partition')}"
        return f"{_many(self.sessions, 'session')}, {_many(self.events, 'event')}: {result}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


async def _verify(settings: Settings, tenant: str, session: str | None, tally: Tally, *, acknowledge: bool) -> None:
    from eventstore.api_keys.keyring import Keyring
    from eventstore.feed.divergence import DivergenceLog
    from eventstore.log.hash_chain import Verifier

    with store_errors(settings, "to be read"):
        async with open_client(settings) as client:
            verifier, records = Verifier(client, await existing_keys(client)), DivergenceLog(client)
            now, losses = await records.now(), await records.all()
            if session is None and not losses:  # what was lost may have been all that the tenant had
                await _check_known(tenant, verifier, Keyring(client))
            for loss in losses:
                tally.lost(loss, tenant)
            if acknowledge:
                await records.acknowledge(losses, now)
            if session is not None:
                tally.add(_found(await verifier.one(tenant, session)))
            else:
                await _verify_all(verifier, tenant, tally)


async def _check_known(tenant: str, verifier: Verifier, keyring: Keyring) -> None:
    """A name that is misspelt must not look as if all was well with it. A tenant is known by its keys before it has
    sessions, and after they are deleted."""
    from eventstore.domain.api_keys import DEFAULT_TENANT

    if tenant == DEFAULT_TENANT or await verifier.count(tenant):
        return
    known = {key.tenant for key in ((await keyring.read()).keys or {}).values()}
    if tenant not in known:
        raise Trouble(f"there is no tenant {tenant}: it has no sessions, and never had a key; check --tenant")


async def _verify_all(verifier: Verifier, tenant: str, tally: Tally) -> None:
    with progress(await verifier.count(tenant)) as step:
        async for verdict in verifier.all(tenant):
            step(1)
            if verdict.state != "deleted":  # while we looked
                tally.add(verdict)


def _tell(line: str) -> None:
    """A line on stdout, past a progress bar that may stand on the terminal."""
    from tqdm import tqdm

    with tqdm.external_write_mode():
        click.echo(line)


def _found(verdict: Verdict) -> Verdict:
    if verdict.state == "absent":
        raise Trouble(f"there is no session {verdict.session_id}")
    if verdict.state == "deleted":
        raise Trouble(f"session {verdict.session_id} was deleted; there is nothing left to verify")
    return verdict
