"""What a unit test may not do is refused, whichever way it is done."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.conftest import STILL_TO_MOVE


def started_by_asyncio() -> None:
    async def start() -> None:
        await asyncio.create_subprocess_exec(sys.executable, "-c", "")

    asyncio.run(start())


def served_by_asyncio() -> None:
    async def serve() -> None:
        (await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)).close()

    asyncio.run(serve())


WAYS: dict[str, Callable[[], object]] = {
    "run": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "system": lambda: os.system("true"),
    "asyncio": started_by_asyncio,
    "connection": lambda: socket.create_connection(("127.0.0.1", 1)),
    "server": served_by_asyncio,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_or_a_socket_is_refused(way: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="starts no process"):
        WAYS[way]()


@pytest.mark.parametrize("name", STILL_TO_MOVE)
def test_a_file_that_has_moved_is_listed_no_longer(name: str) -> None:
    assert Path(__file__).with_name(name).exists()


def test_no_file_that_has_moved_is_left_out_of_a_quick_check() -> None:
    root = Path(__file__).parents[2]
    (names,) = re.findall(r"^LEFT_OUT := (.*)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in names.split() if not (root / name).exists()] == []
