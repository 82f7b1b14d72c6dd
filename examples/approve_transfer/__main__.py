"""The command line: `python -m examples.approve_transfer start` and `… resume`, each with --help."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from examples.approve_transfer import resume as resuming
from examples.approve_transfer import screen
from examples.approve_transfer.bank import Bank, BankUnreachable
from examples.approve_transfer.layby_client import Layby, Refused, Unreachable
from examples.approve_transfer.start import AnotherMessage, start


class Stopped(click.ClickException):
    def show(self, file: Any = None) -> None:
        click.echo(f"\n{self.message}", err=True)


class StillWaiting(Stopped):
    exit_code = 3


class NeedsAPerson(Stopped):
    exit_code = 4


def _common(command: Any) -> Any:
    options = [
        click.option("--url", default="http://127.0.0.1:8700", show_default=True, help="Where Layby listens."),
        click.option("--key", envvar="LAYBY_KEY", help="Key with publish, read and execute.  [env: LAYBY_KEY]"),
        click.option("--patience-ms", default=60_000, show_default=True, help="Try this long if it does not answer."),
        click.option(
            "--ledger",
            type=click.Path(path_type=Path),
            default=Path("ledger.jsonl"),
            show_default=True,
            help="A file that stands in for the bank.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """An agent that moves money only when somebody has approved it."""
    logging.basicConfig(format="%(message)s")


@main.command("start")
@_common
@click.option("--session", help="Its id; to repeat a start, name the session.  [default: a new one]")
@click.option("--message", default="Transfer 250.00 to acme", show_default=True, help="What the agent is asked.")
@click.option("--expires-in-ms", default=3_600_000, show_default=True, help="Time there is to decide.")
def start_command(
    url: str, key: str | None, patience_ms: int, ledger: Path, session: str | None, message: str, expires_in_ms: int
) -> None:
    """Ask the agent, record its run, and leave when it needs an approval."""
    session = session or f"transfer-{secrets.token_hex(4)}"
    commands = screen.Commands(url.rstrip("/"), with_key=bool(key))

    async def run() -> None:
        async with Layby(url, key=key, patience_s=patience_ms / 1000) as layby:
            log = await start(layby, Bank(ledger), session, message, expires_in_ms, click.echo)
            if log.ended:
                click.echo(screen.line("Ended", log.ended))
                return
            for action in log.actions:
                call = await layby.call(session, action.interrupt_id)
                pending = call.status == "PENDING_APPROVAL"
                told = f"{screen.waiting(call)}\n\n{commands.decide(call)}" if pending else screen.decided(call)
                click.echo(f"{told}\n")
            click.echo(commands.resume(session))

    _run(run(), again=f"Nothing is lost: run the same command again, with --session {session}.")


@main.command("resume")
@_common
@click.option("--session", required=True, help="The session to carry on.")
@click.option("--lease-ms", default=60_000, show_default=True, help="Longer than the tool ever takes.")
@click.option("--wait-ms", type=int, help="Wait this long for a decision.  [default: as long as it may come]")
def resume_command(
    url: str, key: str | None, patience_ms: int, ledger: Path, session: str, lease_ms: int, wait_ms: int | None
) -> None:
    """Carry a session on from what Layby knows, wherever it was left."""
    commands = screen.Commands(url.rstrip("/"), with_key=bool(key))
    bank = Bank(ledger)

    async def run() -> None:
        async with Layby(url, key=key, patience_s=patience_ms / 1000) as layby:
            await resuming.resume(layby, bank, session, resuming.Options(lease_ms, wait_ms), click.echo)

    try:
        _run(run(), again="Nothing is lost: run the same command again.")
    except resuming.Undecided as undecided:
        raise StillWaiting(f"Nobody has decided yet.\n\n{commands.decide(undecided.call)}") from None
    except resuming.OutcomeUnknown as unknown:
        raise NeedsAPerson(commands.settle(unknown.call, bank.find(unknown.call.reference))) from None


def _run(work: Coroutine[Any, Any, None], *, again: str) -> None:
    try:
        asyncio.run(work)
    except Unreachable as error:
        raise Stopped(f"Layby does not answer: {error}.\n{again}") from None
    except BankUnreachable as error:
        raise Stopped(
            f"The bank does not answer: {error}.\nNothing was sent, and the approval still stands. {again}"
        ) from None
    except Refused as error:
        raise Stopped(f"Layby refused: {error} ({error.slug})") from None
    except (AnotherMessage, resuming.NothingAsked) as error:
        raise Stopped(str(error)) from None


if __name__ == "__main__":
    main(prog_name="python -m examples.approve_transfer")
