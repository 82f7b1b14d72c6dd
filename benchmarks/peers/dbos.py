"""DBOS (PyPI: dbos): a workflow waits in `DBOS.recv`, another party sends.

DBOS is a library, so the workflow runs in the process of the benchmark, and its database beside it. On PostgreSQL a
message is announced by NOTIFY as soon as it is committed. On SQLite, which DBOS takes where no database is named, the
waiting workflow asks for it once a second. Either way the message is synced to the disk when it is committed, and so is
what the workflow received before `recv` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import random
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.peers import loopback, postgres

if TYPE_CHECKING:
    from dbos import DBOSClient

Database = Literal["postgres", "sqlite"]

DECISION = {"action": "approve", "by": "anna"}
LIMIT_S = 60


def missing(database: Database = "postgres") -> str:
    """Why it cannot run here on this database, "" where it can."""
    if importlib.util.find_spec("dbos") is None:
        return "the Python package dbos is not installed (the extra `bench`)"
    return postgres.missing() if database == "postgres" else ""


@dataclass(frozen=True, slots=True)
class Dbos:
    """A DBOS application that runs in this process."""

    client: DBOSClient
    workflow: Callable[[], int]
    asks_every_s: float
    """0 where it is told instead."""

    async def decided_after(self, count: int) -> list[float]:
        """For each of so many rounds, in milliseconds: from sending the decision, by a client with a connection of its
        own to the database, until `recv` has returned it to a workflow that was waiting.

        Two commits are synced to the disk meanwhile, one after another: the message, and its receipt.
        """
        return [await asyncio.to_thread(self._round) for _ in range(count)]

    def _round(self) -> float:
        from dbos import DBOS

        waiting = DBOS.start_workflow(self.workflow)
        self._parked(waiting.workflow_id)
        # A workflow begins just after the last one heard, so just after DBOS asked; people do not decide to that beat.
        time.sleep(random.uniform(0, self.asks_every_s))
        sent = time.perf_counter_ns()
        self.client.send(waiting.workflow_id, DECISION)
        return (waiting.get_result() - sent) / 1e6

    def _parked(self, workflow_id: str) -> None:
        """`recv` records how long it will sleep just before it does. Raises TimeoutError."""
        give_up = time.monotonic() + loopback.PATIENCE_S
        while not self.client.list_workflow_steps(workflow_id):
            if time.monotonic() > give_up:
                raise TimeoutError("the workflow does not begin to wait")
            time.sleep(0.01)


@contextlib.contextmanager
def running(database: Database = "postgres") -> Generator[Dbos]:
    """DBOS for the length of the block, on a database of its own, which goes with it. One at a time in a process."""
    from dbos import DBOS, DBOSClient

    with tempfile.TemporaryDirectory(prefix="layby-peer-") as folder, _address(database, Path(folder)) as address:
        DBOS(config={"name": "peer", "system_database_url": address, "log_level": "ERROR"})
        try:
            workflow = DBOS.workflow(name="decided")(_decided)
            DBOS.launch()
            client = DBOSClient(system_database_url=address)
            try:
                yield Dbos(client, workflow, 1.0 if database == "sqlite" else 0.0)
            finally:
                client.destroy()
        finally:
            DBOS.destroy(destroy_registry=True)


def _address(database: Database, folder: Path) -> contextlib.AbstractContextManager[str]:
    if database == "postgres":
        return postgres.running(folder)
    return contextlib.nullcontext(f"sqlite:///{folder}/dbos.sqlite")


def _decided() -> int:
    """The workflow: when it had the decision, in nanoseconds."""
    from dbos import DBOS

    decision: Any = DBOS.recv(timeout_seconds=LIMIT_S)
    heard = time.perf_counter_ns()
    assert decision == DECISION
    return heard
