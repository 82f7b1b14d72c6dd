"""A master with replicas, and the Sentinels that watch it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proofs.engines.single import NODE_TIMEOUT_MS, PATIENCE_S, Engine, Group, eventually, is_linked, is_primary

MASTER = "layby"
"""The name by which Sentinels know their master."""


class Sentinels(Group):
    """A master with replicas, and Sentinels that put one of them in its place when it is gone."""

    def __init__(
        self,
        folder: Path,
        *,
        replicas: int = 1,
        sentinels: int = 3,
        binary: str | Path | None = None,
        **options: object,
    ) -> None:
        self.engines: list[Engine] = [
            Engine(folder / f"engine-{n}", binary=binary, **options) for n in range(1 + replicas)
        ]
        self.sentinels: list[_Sentinel] = [_Sentinel(folder / f"sentinel-{n}", binary) for n in range(sentinels)]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(one.address for one in self.sentinels)}/{MASTER}"

    def members(self) -> Iterable[Engine]:
        return (*self.sentinels, *self.engines)

    @property
    def master(self) -> Engine:
        """Whom the Sentinels name."""
        for sentinel in self.sentinels:
            if sentinel.alive:
                _, port = sentinel.client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", MASTER)
                return next(engine for engine in self.engines if engine.port == int(port))
        raise LookupError("no Sentinel is alive")

    def start(self) -> None:
        """Start all, and wait until the Sentinels know each other and the replicas are in step."""
        for engine in self.engines:
            engine.start()
        for engine in self.engines[1:]:
            engine.client.execute_command("REPLICAOF", "127.0.0.1", self.engines[0].port)
        for sentinel in self.sentinels:
            sentinel.watch(self.engines[0], quorum=len(self.sentinels) // 2 + 1)
            sentinel.start()
        for engine in self.engines[1:]:
            eventually(lambda engine=engine: is_linked(engine), "the replica is in step")
        for sentinel in self.sentinels:
            eventually(
                lambda one=sentinel: one.knows(len(self.engines) - 1, len(self.sentinels) - 1), "Sentinels agree"
            )

    def kill_master(self) -> Engine:
        """SIGKILL the master; gives the process, to be started again."""
        master = self.master
        master.kill()
        return master

    def taken_over(self, from_: Engine) -> Engine:
        """Wait until the Sentinels name another master, and it takes writes."""

        def other() -> Engine | None:
            found = self.master
            return found if found is not from_ and is_primary(found) else None

        return eventually(other, "a replica becomes the master")

    def bring_back(self, engine: Engine) -> None:
        """Start a killed master again, and wait until the Sentinels have made a replica of it that is in step."""
        engine.start()
        eventually(lambda: is_linked(engine), "the old master becomes a replica", 2 * PATIENCE_S)


class _Sentinel(Engine):
    """It keeps what it learns in its configuration file."""

    def __init__(self, folder: Path, binary: str | Path | None) -> None:
        super().__init__(folder, binary=binary)

    def watch(self, master: Engine, quorum: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", "logfile log",
            f"sentinel monitor {MASTER} 127.0.0.1 {master.port} {quorum}",
            f"sentinel down-after-milliseconds {MASTER} {NODE_TIMEOUT_MS}",
            f"sentinel failover-timeout {MASTER} 5000",
        ]  # fmt: skip
        (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        return [str(self.binary), str(self.folder / "sentinel.conf"), "--sentinel"]

    def knows(self, replicas: int, sentinels: int) -> bool:
        about: dict[str, Any] = self.client.execute_command("SENTINEL MASTER", MASTER)
        return int(about["num-slaves"]) == replicas and int(about["num-other-sentinels"]) == sentinels
