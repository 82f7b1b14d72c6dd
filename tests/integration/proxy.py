"""A stand-in for the network: a unix socket before the engine that cuts, holds and answers for it on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote, unquote

from eventstore.store import COMMIT, DELETE

WRITES = (COMMIT.sha.encode(), DELETE.sha.encode())


class Proxy:
    """Forwards everything until told otherwise. Cuts apply to pipelines that carry a commit or a deletion."""

    def __init__(self, upstream: str, path: Path) -> None:
        self._upstream = unquote(upstream.removeprefix("unix://"))
        self._path = path
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.cuts_before = 0
        self.cuts_after = 0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.answers: list[bytes] = []

    @property
    def url(self) -> str:
        return "unix://" + quote(str(self._path))

    async def up(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def down(self) -> None:
        """Nobody listens any more, and every connection is cut."""
        if self._server:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for link in list(self._links):
            link.close()

    def hold(self) -> None:
        """Take in, but pass nothing on."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        except OSError:
            writer.close()
            return
        self._links |= {writer, up_writer}
        link = _Link(self, (reader, writer), (up_reader, up_writer))
        with contextlib.suppress(OSError):
            await asyncio.wait([asyncio.create_task(link.requests()), asyncio.create_task(link.replies())])
        self._links -= {writer, up_writer}

    async def passing(self) -> None:
        await self._flowing.wait()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection."""

    def __init__(self, proxy: Proxy, client: Ends, engine: Ends) -> None:
        self.proxy = proxy
        self.client = client
        self.engine = engine
        self.cut_reply = False

    def close(self) -> None:
        self.client[1].close()
        self.engine[1].close()

    async def requests(self) -> None:
        proxy = self.proxy
        with contextlib.suppress(OSError):
            while data := await self.client[0].read(1 << 20):
                await proxy.passing()
                writes = any(sha in data for sha in WRITES)
                if writes and proxy.cuts_before:
                    proxy.cuts_before -= 1
                    break
                if proxy.answers and not data.startswith(b"*4\r\n$6\r\nCLIENT"):
                    self.client[1].write(proxy.answers.pop(0))
                    continue
                if writes and proxy.cuts_after:
                    proxy.cuts_after -= 1
                    self.cut_reply = True
                self.engine[1].write(data)
        self.close()

    async def replies(self) -> None:
        proxy = self.proxy
        with contextlib.suppress(OSError):
            while data := await self.engine[0].read(1 << 20):
                if self.cut_reply:
                    if proxy.meanwhile:
                        await proxy.meanwhile()
                    break
                await proxy.passing()
                self.client[1].write(data)
        self.close()
