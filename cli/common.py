"""What the commands share: their options, and how trouble is told to the operator."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # pydantic is loaded by the command that runs, not by --help
    from eventstore.settings import Settings
    from eventstore.support.timing import Timing

F = TypeVar("F", bound=Callable[..., object])


class Trouble(click.ClickException):
    """Something that only the operator can mend: one line on stderr, exit code 2."""

    exit_code = 2


class StrictCommand(click.Command):
    """A command that takes no option twice: click would pass over all but the last in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option in given:
            if isinstance(option, click.Option) and not option.is_flag and given.count(option) > 1:
                raise click.UsageError(f"{option.opts[0]} is given {given.count(option)} times; give it once", ctx)
        return super().parse_args(ctx, args)


class Word(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  # generic in new versions of click only
    """What a rule of `eventstore.domain.api_keys` lets pass: a `name`, a `tenant`, a list of `scopes`."""

    def __init__(self, name: str) -> None:
        self.name: str = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from eventstore.domain import api_keys

        try:
            if self.name == "scopes":
                return api_keys.scopes(word.strip() for word in value.split(",") if word.strip())
            return api_keys.tenant(value) if self.name == "tenant" else api_keys.name(value)
        except api_keys.WrongWord as error:
            self.fail(str(error), param, ctx)


@contextmanager
def operator_errors() -> Generator[None, None, None]:
    """Turn what the operator must mend into one line in place of a traceback."""
    from eventstore.embedded.errors import EngineError
    from eventstore.redis_client.url import UnfitEngine
    from eventstore.settings import SettingsError

    try:
        yield
    except (EngineError, SettingsError, UnfitEngine) as error:
        raise Trouble(str(error)) from None


def setting(name: str, metavar: str, text: str) -> Callable[[F], F]:
    """A setting as an option. Its value stays text: the settings judge it, wherever it came from."""
    variable = "LAYBY_" + name.removeprefix("--").replace("-", "_").upper()
    return click.option(name, metavar=metavar, help=f"{text} [env: {variable}]")


def store_options(command: F) -> F:
    """`--data-dir` and `--redis-url`: where the store is."""
    redis_url = setting("--redis-url", "URL", "Use this Redis in place of an embedded engine.")
    data_dir = setting("--data-dir", "DIRECTORY", "Data of the embedded engine. Default: ./layby-data")
    return data_dir(redis_url(command))


def tenant_option(text: str, default: str | None = "default") -> Callable[[F], F]:
    """`--tenant`, by default the one that everything is of where there are no keys."""
    return click.option(
        "--tenant", type=Word("tenant"), metavar="NAME", default=default, show_default=default is not None, help=text
    )


def current_timing() -> Timing:
    """The timing of the command that runs."""
    from eventstore.support.timing import TIMING, Timing

    return click.get_current_context().find_object(Timing) or TIMING


def settings_from(**options: str | None) -> Settings:
    """The settings of a command that was given these options; call it within `operator_errors`."""
    from eventstore.settings import load_settings

    return load_settings(options)
