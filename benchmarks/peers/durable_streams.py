"""The reference server of Durable Streams (npm: @durable-streams/server): what a load on it has to send.

In its JSON mode an append is one JSON value, or an array, whose elements are then the stream's values. An append is
answered with 204 and no body.

The memory store keeps nothing. The file store answers an append after three syncs, one after another: the stream's
file, and its metadata twice, the second time in the one thread that serves every stream. Each read notes its time with
such a sync too, and reads the whole file of the stream; so does a live read whenever it wakes.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers import loopback, node
from proofs.engines import free_port

Store = Literal["memory", "file"]

HEADERS = {"Content-Type": "application/json"}
"""Of an append; a read needs none."""

missing = node.missing


@dataclass(frozen=True, slots=True)
class DurableStreams:
    """A server that runs."""

    store: Store
    port: int
    pid: int

    def create(self, name: str) -> str:
        """The path of a new stream in JSON mode. Appends are POSTs to it. Raises OSError where it is refused."""
        path = f"/streams/{name}"
        loopback.request("PUT", self.port, path)
        return path


def one(event: Any) -> bytes:
    """The body of an append of one event."""
    return json.dumps(event).encode()


def batch(events: Sequence[Any]) -> bytes:
    """The body of an append of several. They become one message: a live read hears them in one piece."""
    return json.dumps(list(events)).encode()


def history(path: str) -> str:
    """GET this for every event of the stream, as one JSON array."""
    return f"{path}?offset=-1"


def sse(path: str, offset: str = "now") -> str:
    """GET this to follow the stream; it stays open. Each append is `event: data` with a JSON array of its events, then
    `event: control` with the offset that follows."""
    return f"{path}?offset={offset}&live=sse"


def long_poll(path: str, offset: str = "now") -> str:
    """GET this for the events of the next append behind an offset; the answer's `Stream-Next-Offset` is for the next
    request. 204 where there was none within 30 s."""
    return f"{path}?offset={offset}&live=long-poll"


@contextlib.contextmanager
def running(store: Store) -> Generator[DurableStreams]:
    """A server for the length of the block; its data go with it. Raises RuntimeError where it does not start."""
    with tempfile.TemporaryDirectory(prefix="layby-peer-") as folder:
        log, port = Path(folder, "server.log"), free_port()
        with loopback.process(node.script("durable_streams.mjs", store, port, folder), log) as started:
            loopback.until(lambda: b"ready" in log.read_bytes().splitlines(), started, log)
            yield DurableStreams(store, port, started.pid)
