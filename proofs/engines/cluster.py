"""A Redis Cluster: made, broken, its slots moved."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from proofs.engines.single import NODE_TIMEOUT_MS, Engine, Group, eventually, free_port, is_linked, is_primary

SLOTS = 16_384
MOVED_AT_ONCE = 100


class Cluster(Group):
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

    def members(self) -> Iterable[Engine]:
        return self.nodes

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
        while most is None or moved < most:
            count = MOVED_AT_ONCE if most is None else min(MOVED_AT_ONCE, most - moved)
            keys = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, count)
            if not keys:
                break
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end_move(self, slot: int, target: Engine) -> None:
        """Give the slot to the target."""
        source = self.owner(slot)
        others = [node for node in self.nodes if node.alive and node not in (source, target) and is_primary(node)]
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
            if not is_primary(replica):
                replica.client.execute_command("CLUSTER FAILOVER")
                time.sleep(0.2)
            return is_primary(replica)

        eventually(asked, f"node {replica.port} becomes a primary")

    def take_over(self, replica: Engine) -> None:
        """A replica takes its primary's slots, whatever it lacks, and without asking the others."""

        def asked() -> bool:
            if not is_primary(replica):
                replica.client.execute_command("CLUSTER FAILOVER TAKEOVER")
            return is_primary(replica)

        eventually(asked, f"node {replica.port} takes over")


def _cluster_options() -> dict[str, object]:
    return {
        "cluster-enabled": "yes", "cluster-port": free_port(), "cluster-config-file": "nodes.conf",
        "cluster-node-timeout": NODE_TIMEOUT_MS, "cluster-require-full-coverage": "no",
        "cluster-replica-validity-factor": 0, "cluster-announce-ip": "127.0.0.1",
    }  # fmt: skip


def _is_well(node: Engine) -> bool:
    state = node.client.execute_command("CLUSTER INFO")["cluster_state"]
    return state == "ok" and (is_primary(node) or is_linked(node))
