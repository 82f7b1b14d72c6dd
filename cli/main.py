"""`layby`: the group of commands, each loaded only when it is called, so that help answers at once."""

import sys
from importlib import import_module
from typing import NamedTuple

import click


class CommandEntry(NamedTuple):
    """Where a command is, and how its own help begins: the list of commands is told without importing any."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "demo": CommandEntry(
        "cli.demo.command", "demo", "Play a session that parks until you decide, on a server of its own."
    ),
    "keys": CommandEntry("cli.keys", "keys", "Create, list and revoke the keys to the door."),
    "rebuild": CommandEntry("cli.rebuild", "rebuild", "Build snapshots, lists and the inbox anew from the events."),
    "serve": CommandEntry("cli.serve", "serve", "Run a Layby server until it is told to stop (Ctrl-C or SIGTERM)."),
    "verify": CommandEntry("cli.verify", "verify", "Recompute the hash chain of SESSION, or of every session."),
}
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


class LazyGroup(click.Group):
    """A group that finds its commands in COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        place = COMMANDS[cmd_name]
        command: object = getattr(import_module(place.module), place.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(package_name="layby", message="layby %(version)s")
def layby() -> None:
    """The durable session log and decision point for AI agents, on Redis Streams."""


def _told(error: click.ClickException) -> str:
    """One line that says what is wrong and, where help would tell more, how to get it."""
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx:
        message = f"{message.rstrip('.')}; see {error.ctx.command_path} --help"
    return message


def main(timing: object = None) -> None:
    """Run one command and exit: 0 done, 2 wrongly called or cannot run, 130 interrupted. `timing` is a `Timing` other
    than that of the product."""
    try:
        code: object = layby.main(prog_name="layby", standalone_mode=False, obj=timing)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        click.echo(f"layby: {_told(error)}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
