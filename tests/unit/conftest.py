"""A unit test starts no process and opens no socket."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

REFUSED = [
    *((os, name) for name in ("fork", "posix_spawn", "posix_spawnp", "system")),
    *((asyncio, name) for name in ("create_subprocess_exec", "create_subprocess_shell")),
    (subprocess.Popen, "__init__"),
    *((socket.socket, name) for name in ("bind", "connect", "connect_ex")),
]
STILL_TO_MOVE = {
    "test_cli.py": "the command line as a process",
    "test_cli_keys.py": "the command line as a process, and an engine",
    "test_expiry_proof.py": "about a proof; looks for a free port",
    "test_fault_points.py": "about a proof; processes that are to be killed",
    "test_proof_client.py": "about the proofs; a server in this process",
    "test_proof_line.py": "about the proofs; a server in this process",
    "test_proxy.py": "about the proofs; a server in this process",
}
"""Files that belong elsewhere, and why. It only gets shorter."""


@pytest.fixture(scope="module", autouse=True)
def nothing_but_the_unit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Before any other fixture of a module, so that those are held to it too."""
    if request.path.name in STILL_TO_MOVE:
        yield
        return

    def refuse(*_: object, **__: object) -> None:
        pytest.fail(
            "a unit test starts no process and opens no socket: this belongs in tests/integration or tests/http"
        )

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in REFUSED:
            patched.setattr(owner, name, refuse)
        yield
