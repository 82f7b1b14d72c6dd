"""Engines that lose what they have acknowledged, in each of the ways in which that happens."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from proofs.engines import Engine, eventually
from tests.integration.clusters import AT_ONCE
from tests.scripts.engines import free_port


class Losing:
    """An engine at `url`. What it has when `keep` is called survives `lose`; what it acknowledges later does not."""

    url: str

    async def keep(self) -> None:
        raise NotImplementedError

    async def lose(self) -> None:
        raise NotImplementedError


class Switch:
    """A port that leads to one engine or another."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._links = set[asyncio.StreamWriter]()
        self._server: asyncio.Server | None = None

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 20)

    def lead_to(self, target: int) -> None:
        """From now on; what was connected is cut."""
        self._target = target
        for link in list(self._links):
            link.close()

    async def down(self) -> None:
        assert self._server
        self._server.close()
        self.lead_to(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=1 << 20)
        except OSError:
            writer.close()
            return
        self._links |= {writer, up_writer}
        await asyncio.gather(self._pour(reader, up_writer), self._pour(up_reader, writer))
        self._links -= {writer, up_writer}

    async def _pour(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


class Failover(Losing):
    """A primary that goes on alone, and dies; then its replica takes over, which has heard of none of that."""

    def __init__(self, primary: Engine, replica: Engine, switch: Switch) -> None:
        self._primary, self._replica, self._switch = primary, replica, switch
        self.url = f"redis://127.0.0.1:{switch.port}"

    async def keep(self) -> None:
        await asyncio.to_thread(self._part)

    def _part(self) -> None:
        def in_step() -> bool:
            mine = self._primary.client.info("replication")["master_repl_offset"]
            theirs = self._replica.client.info("replication")
            return theirs["master_link_status"] == "up" and theirs["slave_repl_offset"] == mine

        eventually(in_step, "the replica has everything")
        self._replica.client.replicaof("NO", "ONE")

    async def lose(self) -> None:
        await asyncio.to_thread(self._primary.kill)
        self._switch.lead_to(self._replica.port)


class OldCopy(Losing):
    """An engine that is started again with the files that it had before: a backup, or a disk that lacks the rest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.url = engine.url

    async def keep(self) -> None:
        await asyncio.to_thread(shutil.copytree, self._engine.folder, self._copy)

    async def lose(self) -> None:
        await asyncio.to_thread(self._restore)

    def _restore(self) -> None:
        self._engine.kill()
        shutil.rmtree(self._engine.folder)
        self._copy.rename(self._engine.folder)
        self._engine.start()

    @property
    def _copy(self) -> Path:
        return self._engine.folder.with_name("copy")


@asynccontextmanager
async def failover(folder: Path) -> AsyncGenerator[Losing]:
    with Engine(folder / "primary", **AT_ONCE) as primary, Engine(folder / "replica", **AT_ONCE) as replica:
        await asyncio.to_thread(replica.client.replicaof, "127.0.0.1", primary.port)
        switch = Switch(primary.port)
        await switch.up()
        yield Failover(primary, replica, switch)
        await switch.down()


@asynccontextmanager
async def old_copy(folder: Path) -> AsyncGenerator[Losing]:
    with Engine(folder / "engine") as engine:
        yield OldCopy(engine)


WAYS: dict[str, Callable[[Path], AbstractAsyncContextManager[Losing]]] = {"failover": failover, "old copy": old_copy}
