"""Redis processes to break: single ones, clusters, and masters that Sentinels watch. All on loopback.

    with Cluster(folder, primaries=3, replicas=1) as cluster:
        serve(cluster.url); cluster.kill_primary(0)

Everything here blocks, so that it can be used from any event loop, or none: call it in a thread where one must go on.
The processes stay in the process group of whoever starts them, so that a signal to the group ends them too.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from eventstore.engine.process import find_binary

SLOTS = 16_384
PATIENCE_S = 30.0
NODE_TIMEOUT_MS = 1_000
"""How long a node of a cluster, or a master, is silent before the others take it for dead."""
MASTER = "layby"
"""The name by which Sentinels know their master."""

DURABLE = {
    "appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction",
    "notify-keyspace-events": "Ex", "repl-diskless-sync-delay": 0,
}  # fmt: skip


def eventually(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Wait until this holds; gives what it gave. Where a node does not answer, it does not."""
    end = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(RedisError, OSError, LookupError):
            if found := condition():
                return found
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience_s:.0f} s")
        time.sleep(0.02)


def free_port() -> int:
    """A port below those that the system gives to outgoing connections: it is still free when an engine comes back."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Engine:
    """One process. It can be killed or frozen, and started again on the same port with the same data."""

    def __init__(self, folder: Path, *, binary: str | Path | None = None, **options: object) -> None:
        """`binary` is a Valkey, or another server such as /usr/bin/redis-server; `options` are lines of its
        configuration, with `_` for `-` (of more than one word as a tuple). Without any it keeps an append-only file
        that is synced always."""
        self.folder: Path = folder
        self.port: int = free_port()
        self.binary: Path = Path(binary or find_binary())
        self.options: dict[str, Any] = {**DURABLE, **{k.replace("_", "-"): v for k, v in options.items()}}
        self.process: subprocess.Popen[bytes] | None = None
        # Any: the command methods of redis-py are typed for both of their uses
        self.client: Any = Redis(port=self.port, decode_responses=True, socket_timeout=5, protocol=2)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it has loaded its data and answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, f"an engine on port {self.port}, see {self.folder}/log")

    def _command(self) -> list[str]:
        options: dict[str, Any] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "logfile": "log",
            **self.options,
        }
        arguments = [str(self.binary)]
        for name, value in options.items():
            words: Any = value if isinstance(value, tuple) else (value,)
            arguments += [f"--{name}", *map(str, words)]
        return arguments

    def _answers(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"the engine on port {self.port} ended at once, see {self.folder}/log")
        return bool(self.client.ping())

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """It hangs: its connections stay open, nothing answers."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self.client.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cluster:
    """Some primaries, the slots shared out evenly among them, each with replicas. `nodes` holds all, the primaries
    as they were at the start first; the replicas of `nodes[i]` are `replicas_of(i)`."""

    def __init__(
        self,
        folder: Path,
        *,
        primaries: int = 3,
        replicas: int = 0,
        binary: str | Path | None = None,
        **options: object,
    ) -> None:
        self.primaries: int = primaries
        self.replicas: int = replicas
        self.nodes: list[Engine] = [
            Engine(folder / f"node-{n}", binary=binary, **_cluster_options(), **options)
            for n in range(primaries * (1 + replicas))
        ]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def replicas_of(self, number: int) -> list[Engine]:
        """The nodes that began as replicas of this primary."""
        return self.nodes[self.primaries + number :: self.primaries]

    def start(self) -> None:
        """Start all nodes and make one cluster of them."""
        for node in self.nodes:
            node.start()
        first = self.nodes[0]
        for epoch, node in enumerate(self.nodes, 1):
            node.client.execute_command("CLUSTER SET-CONFIG-EPOCH", epoch)
            if node is not first:
                node.client.execute_command("CLUSTER MEET", "127.0.0.1", first.port, first.options["cluster-port"])
        step = -(-SLOTS // self.primaries)
        for number, node in enumerate(self.nodes[: self.primaries]):
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", number * step, min(SLOTS, (number + 1) * step) - 1)
        everyone = {node.port for node in self.nodes}
        eventually(lambda: all(set(self._view(node)) >= everyone for node in self.nodes), "the nodes know each other")
        for number, node in enumerate(self.nodes[: self.primaries]):
            for replica in self.replicas_of(number):
                replica.client.execute_command("CLUSTER REPLICATE", self.id_of(node))
        self.settle()

    def settle(self) -> None:
        """Wait until every node that lives finds the cluster whole, and every replica among them is in step."""
        for node in self.nodes:
            if node.alive:
                eventually(lambda node=node: _is_well(node), f"node {node.port} finds the cluster whole")
        living = {node.port for node in self.nodes if node.alive}

        def agree() -> bool:
            views = [self._owners(node) for node in self.nodes if node.alive]
            return all(view == views[0] for view in views) and set(views[0].values()) <= living

        eventually(agree, "the nodes agree who serves what")

    def id_of(self, node: Engine) -> str:
        return str(node.client.execute_command("CLUSTER MYID"))

    def _view(self, node: Engine) -> dict[int, dict[str, Any]]:
        """What a node knows of the others, by port."""
        known: dict[str, dict[str, Any]] = node.client.execute_command("CLUSTER NODES")
        return {int(address.rpartition(":")[2]): about for address, about in known.items()}

    def _owners(self, node: Engine) -> dict[tuple[int, int], int]:
        """The port that serves each range of slots."""
        found: list[Any] = node.client.execute_command("CLUSTER SLOTS")
        return {(first, last): int(primary[1]) for first, last, primary, *_ in found}

    def owner(self, slot: int) -> Engine:
        """The primary that serves a slot now."""
        for node in self.nodes:
            if node.alive:
                for (first, last), port in self._owners(node).items():
                    if first <= slot <= last and (found := self._by_port(port)).alive:
                        return found
        raise LookupError(f"nobody serves slot {slot}")

    def _by_port(self, port: int) -> Engine:
        return next(node for node in self.nodes if node.port == port)

    @staticmethod
    def slot(key: str) -> int:
        """The slot of a key or channel, such as `layby:{p07}:wake`."""
        return key_slot(key.encode())

    def begin_move(self, slot: int, target: Engine) -> Engine:
        """Open a slot for migration: from now on its owner answers ASK for keys that it does not have. The owner."""
        source = self.owner(slot)
        target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot: int, target: Engine, most: int | None = None) -> int:
        """Take keys of an open slot over to the target: all of them, or so many. How many it took."""
        source, moved = self.owner(slot), 0
        while keys := source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, min(100, (most or 100) - moved)):
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)
            moved += len(keys)
            if most is not None and moved >= most:
                break
        return moved

    def end_move(self, slot: int, target: Engine) -> None:
        """Give the slot to the target."""
        source = self.owner(slot)
        others = [node for node in self.nodes if node.alive and node not in (source, target) and _is_primary(node)]
        for node in (target, source, *others):
            node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", self.id_of(target))

    def move_slot(self, slot: int, target: Engine) -> None:
        """Move a slot while it is in use."""
        self.begin_move(slot, target)
        self.move_keys(slot, target)
        self.end_move(slot, target)

    def kill_primary(self, slot: int) -> Engine:
        """SIGKILL whoever serves a slot; gives the process, to be started again. A replica takes over by itself."""
        node = self.owner(slot)
        node.kill()
        return node

    def taken_over(self, slot: int, from_: Engine) -> Engine:
        """Wait until another node serves the slot."""

        def other() -> Engine | None:
            found = self.owner(slot)
            return found if found is not from_ else None

        return eventually(other, f"a replica takes slot {slot} over")

    def replica_of(self, primary: Engine) -> Engine:
        """A replica that lives, as things are now. Raises LookupError."""
        wanted, view = self.id_of(primary), self._view(primary)
        for node in self.nodes:
            if node.alive and view.get(node.port, {}).get("master_id") == wanted:
                return node
        raise LookupError(f"node {primary.port} has no replica that lives")

    def promote(self, replica: Engine) -> None:
        """A planned failover: the replica takes over from its primary without losing a write."""

        def asked() -> bool:  # more than once: while it is not yet in step, it gives up silently
            if not _is_primary(replica):
                replica.client.execute_command("CLUSTER FAILOVER")
                time.sleep(0.2)
            return _is_primary(replica)

        eventually(asked, f"node {replica.port} becomes a primary")

    def take_over(self, replica: Engine) -> None:
        """A replica takes its primary's slots, whatever it lacks, and without asking the others."""

        def asked() -> bool:
            if not _is_primary(replica):
                replica.client.execute_command("CLUSTER FAILOVER TAKEOVER")
            return _is_primary(replica)

        eventually(asked, f"node {replica.port} takes over")

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sentinels:
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
            eventually(lambda engine=engine: _is_linked(engine), "the replica is in step")
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
            return found if found is not from_ and _is_primary(found) else None

        return eventually(other, "a replica becomes the master")

    def bring_back(self, engine: Engine) -> None:
        """Start a killed master again, and wait until the Sentinels have made a replica of it that is in step."""
        engine.start()
        eventually(lambda: _is_linked(engine), "the old master becomes a replica", 2 * PATIENCE_S)

    def close(self) -> None:
        for one in (*self.sentinels, *self.engines):
            one.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def _cluster_options() -> dict[str, object]:
    return {
        "cluster-enabled": "yes", "cluster-port": free_port(), "cluster-config-file": "nodes.conf",
        "cluster-node-timeout": NODE_TIMEOUT_MS, "cluster-require-full-coverage": "no",
        "cluster-replica-validity-factor": 0, "cluster-announce-ip": "127.0.0.1",
    }  # fmt: skip


def _is_primary(node: Engine) -> bool:
    return node.client.info("replication")["role"] == "master"


def _is_linked(node: Engine) -> bool:
    about = node.client.info("replication")
    return about["role"] == "slave" and about["master_link_status"] == "up" and not about["master_sync_in_progress"]


def _is_well(node: Engine) -> bool:
    state = node.client.execute_command("CLUSTER INFO")["cluster_state"]
    return state == "ok" and (_is_primary(node) or _is_linked(node))
