"""What the benchmarks share: a Layby server of their own, a lean HTTP client, and figures that can be compared."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Server:
    """A `layby serve` process with an engine and a data directory of its own."""

    process: subprocess.Popen[bytes]
    port: int
    data_dir: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def engine(self) -> str:
        """The address of its engine, as redis-py takes it."""
        socket_file = (self.data_dir / "engine.address").read_text().strip()
        return socket_file if "://" in socket_file else f"unix://{socket_file}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(data_dir: Path, port: int) -> Server:
    """Start a server and wait until it is ready."""
    layby = Path(sys.executable).with_name("layby")
    command = [str(layby), "serve", "--port", str(port), "--data-dir", str(data_dir)]
    log = (data_dir.parent / "server.log").open("ab")
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    server = Server(process, port, data_dir)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError((data_dir.parent / "server.log").read_text()[-2000:])
        with contextlib.suppress(OSError), urllib.request.urlopen(server.url + "/readyz", timeout=2):
            return server
        time.sleep(0.02)
    raise RuntimeError("the server did not become ready")


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """A server for the length of a benchmark; its data go with it."""
    folder = Path(tempfile.mkdtemp(prefix="layby-bench-"))
    server = launch(folder / "data", free_port())
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


class Client:
    """One kept-alive HTTP/1.1 connection. Only what the benchmarks need, so that the client is not what is measured."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        """Status and body."""
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in answer.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return int(answer[9:12]), await self._reader.readexactly(length)

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """The parsed answer; anything but success is an error."""
        status, answer = await self.request(method, path, b"" if body is None else json.dumps(body).encode())
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer)

    def close(self) -> None:
        if self._writer:
            self._writer.close()


async def median_ms(times: int, action: Callable[[int], Any]) -> float:
    """The median time of an awaited action, in milliseconds."""
    taken = list[float]()
    for number in range(times):
        began = time.perf_counter()
        await action(number)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)
