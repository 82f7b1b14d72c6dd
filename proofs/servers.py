"""Layby servers for proofs: started from the tree that is proved, on loopback, with an engine of their own or a given
one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from proofs.client import Client
from proofs.engines import free_port
from proofs.proof import Run

ROOT = Path(__file__).parents[1]


class Server:
    """One `layby serve` process, and how to end it in every way."""

    def __init__(
        self,
        folder: Path,
        *,
        redis_url: str = "",
        settings: Mapping[str, str] | None = None,
        root: Path = ROOT,
        port: int = 0,
        under: Sequence[str] = (),
    ) -> None:
        """`folder` is for its log and, without `redis_url`, for its data. `settings` are environment variables of
        Layby without their prefix, as `durability`. `root` is the tree that it runs from. It keeps its port. `under`
        is a command that becomes the server, as `env` does."""
        self.folder, self.port, self.root, self.under = folder, port or free_port(), root, under
        self.data_dir, self.log = folder / "data", folder / "server.log"
        folder.mkdir(parents=True, exist_ok=True)
        given = {"redis_url": redis_url, **(settings or {})}
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_") or "PROOF" in name}
        self.environment = clean | {f"LAYBY_{name.upper()}": value for name, value in given.items()}
        self.environment["PYTHONPATH"] = str(root)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    @property
    def engine_pid(self) -> int:
        """Of its private engine."""
        return int((self.data_dir / "engine.lock").read_text().split()[0])

    @property
    def engine_url(self) -> str:
        """Of the engine that it uses, its private one by default, as redis-py takes it."""
        if given := self.environment["LAYBY_REDIS_URL"]:
            return given
        address = (self.data_dir / "engine.address").read_text().strip()
        return address if "://" in address else f"unix://{address}"

    def client(self, key: str = "", timeout_s: float = 30.0) -> Client:
        return Client(self.port, key=key, timeout_s=timeout_s)

    def start(self, limit_s: float = 60.0) -> Server:
        """Start it and wait until it is ready. Raises RuntimeError with the end of its log."""
        serve = [sys.executable, "-m", "cli", "serve", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        command = [*self.under, *serve]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.root, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        return self.wait_ready(limit_s)

    def wait_ready(self, limit_s: float = 60.0) -> Server:
        give_up = time.monotonic() + limit_s
        while time.monotonic() < give_up and self.process and self.process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(self.url + "/readyz", timeout=2):
                return self
            time.sleep(0.02)
        raise RuntimeError(f"the server did not become ready: {self.log.read_text()[-3000:]}")

    def kill(self, victim: str = "both") -> None:
        """SIGKILL to the `server`, its private `engine`, or `both`; waits until the server is gone."""
        assert self.process
        with contextlib.suppress(ProcessLookupError):
            if victim == "engine":
                os.kill(self.engine_pid, signal.SIGKILL)
            elif victim == "server":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        if victim != "engine":
            self.process.wait()

    def stop(self, limit_s: float = 15.0) -> int:
        """SIGTERM, and its exit code. Raises `subprocess.TimeoutExpired`."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)

    def end(self) -> None:
        """Whatever state it is in, it is gone afterwards, and its engine too."""
        if self.process and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()

    def verify(self, run: Run) -> None:
        """Every hash chain in its store holds, as `layby verify` has it. Raises `Breach`."""
        told = self.layby("verify", limit_s=600)
        run.check(told.returncode == 0, f"layby verify: {told.stdout[-500:]} {told.stderr[-500:]}")

    def layby(self, *arguments: str, limit_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run another command of the command line on its store, as `verify`."""
        command = [sys.executable, "-m", "cli", *arguments]
        if not self.environment["LAYBY_REDIS_URL"]:
            command += ["--data-dir", str(self.data_dir)]
        return subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=limit_s, check=False
        )


@contextlib.contextmanager
def running(*servers: Server) -> Generator[None]:
    """Start them; when the block is left they are gone."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.end()
