"""`layby`: the group of commands, each loaded only when it is called, so that help answers at once."""

import sys
from importlib import import_module

import click

COMMANDS = {
    "demo": "cli.demo.command:demo",
    "keys": "cli.keys:keys",
    "rebuild": "cli.rebuild:rebuild",
    "serve": "cli.serve:serve",
    "verify": "cli.verify:verify",
}
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


class LazyGroup(click.Group):
    """A group that finds its commands in COMMANDS: name to `module:attribute`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: object = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


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


def main() -> None:
    """Run one command and exit: 0 done, 2 wrongly called or cannot run, 130 interrupted."""
    try:
        code: object = layby.main(prog_name="layby", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        click.echo(f"layby: {_told(error)}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
