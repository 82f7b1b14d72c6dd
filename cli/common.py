"""What the commands share: their options, and how trouble is told to the operator."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:  # pydantic is loaded by the command that runs, not by --help
    from eventstore.settings import Settings

F = TypeVar("F", bound=Callable[..., object])


class Trouble(click.ClickException):
    """Something that only the operator can mend: one line on stderr, exit code 2."""

    exit_code = 2


@contextmanager
def operator_errors() -> Generator[None, None, None]:
    """Turn what the operator must mend into one line in place of a traceback."""
    from eventstore.embedded import EngineError
    from eventstore.fitness import UnfitEngine
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


def settings_from(**options: str | None) -> Settings:
    """The settings of a command that was given these options; call it within `operator_errors`."""
    from eventstore.settings import load_settings

    return load_settings(options)
