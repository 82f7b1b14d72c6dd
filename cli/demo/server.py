"""The server of a demo: a process of its own, which runs this module, and ends when the demo does, however that is."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cli.common import Trouble, operator_errors, settings_from


@contextmanager
def server(port: str, data_dir: Path) -> Generator[str]:
    """The URL of a server that ends when the block does. Raises `Trouble` with what it says if it cannot start."""
    from subprocess import PIPE, Popen
    from tempfile import TemporaryFile

    command = [sys.executable, "-P", "-m", "cli.demo.server", port, str(data_dir)]
    with TemporaryFile("w+") as log, Popen(command, stdin=PIPE, stdout=PIPE, stderr=log, text=True) as process:
        assert process.stdout
        try:
            greeting = re.search(r"http://[^ ,]+", process.stdout.readline())
            if greeting is None:
                process.wait()
                log.seek(0)
                raise Trouble((log.read().splitlines() or ["the server did not start"])[-1].removeprefix("layby: "))
            yield greeting[0]
        finally:
            process.terminate()
            process.wait()  # the data may go only once nobody writes any more


def _serve(port: str, data_dir: str) -> int:
    """On an embedded engine, even where the environment names a Redis."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of a terminal that closes: the demo hears it too, and ends this
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    try:
        with operator_errors():
            settings = settings_from(host="127.0.0.1", port=port, data_dir=data_dir)
            from api.server.process import run

            return run(settings.model_copy(update={"redis_url": None}))
    except Trouble as error:
        sys.stderr.write(f"layby: {error.format_message()}\n")
        return error.exit_code


def _end_with_the_demo() -> None:
    """Its end of the pipe closes even if it is killed."""
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written; not buffered, so that it may go on when this ends
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(_serve(*sys.argv[1:]))
