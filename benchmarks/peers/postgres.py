"""A PostgreSQL of its own for a peer that needs one: defaults, so that a commit is synced before it is answered."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

from benchmarks.peers import loopback
from proofs.engines import free_port

NOBODY = "nobody"


def missing() -> str:
    """Why it cannot run here, "" where it can."""
    return "" if _tool("initdb") else "there is no PostgreSQL server on this machine (Debian: postgresql)"


def _tool(name: str) -> str | None:
    """Debian keeps the tools of the server beside each other, by version, and off the path."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    return shutil.which(name) or (str(newest[-1]) if newest else None)


@contextlib.contextmanager
def running(folder: Path) -> Generator[str]:
    """Its address, as SQLAlchemy takes it. Raises RuntimeError where it does not start."""
    user = _user(folder)
    data, log, port = folder / "postgres", folder / "postgres.log", free_port()
    initdb, postgres = _tool("initdb"), _tool("postgres")
    assert initdb and postgres
    make = [initdb, "--auth=trust", "--username=layby", "--encoding=UTF8", "--no-locale", "--pgdata", str(data)]
    subprocess.run(make, user=user, stdout=subprocess.DEVNULL, check=True, timeout=loopback.PATIENCE_S)
    command = [postgres, "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", folder]
    with loopback.process(command, log, user=user) as started:
        loopback.until(lambda: b"ready to accept connections" in log.read_bytes(), started, log)
        yield f"postgresql://layby@127.0.0.1:{port}/postgres"


def _user(folder: Path) -> str | None:
    """It refuses to run as root. Then it is nobody's, and the folder too."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, NOBODY)
    return NOBODY
