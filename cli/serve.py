"""`layby serve`: run a server."""

import click

from cli.common import StrictCommand, current_timing, operator_errors, setting, settings_from, store_options


@click.command(cls=StrictCommand)
@setting("--host", "ADDRESS", "Address to listen on. Default: 127.0.0.1")
@setting("--port", "PORT", "Port to listen on; 0 takes a free one. Default: 8700")
@store_options
@setting("--default-expiry-ms", "MS", "Deadline of a call that names none. Default: 86400000 (a day)")
@setting("--max-expiry-ms", "MS", "Longest deadline a call may ask for. Default: 2592000000 (30 days)")
@setting("--durability", "LEVEL", "Reached before acknowledging: memory, fsync, replicated:N. Default: fsync")
@click.pass_context
def serve(ctx: click.Context, **options: str | None) -> None:
    """Run a Layby server until it is told to stop (Ctrl-C or SIGTERM).

    Without --redis-url it runs an embedded engine of its own, with its data in --data-dir.
    """
    from eventstore.support.gc_tuning import lasting

    with lasting():
        from api.server.process import run
    with operator_errors():
        ctx.exit(run(settings_from(**options), current_timing()))
