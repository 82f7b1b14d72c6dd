"""Projectors that are killed, that meet, and that come back from the dead; and a feed that forgot what they need.

Nobody else projects here: the application has no background work, and the projectors are processes that stop where
they are told to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator

from proofs.client import Answer
from proofs.engines import Engine
from proofs.model.drivers import InProcess
from proofs.projections.comparing import Compared
from proofs.projections.held import Held, about_to_switch, projecting, rebuilding
from proofs.projections.logs import Stored
from proofs.projections.writers import Acknowledged, Writer, crowd
from proofs.proof import Run


class Store:
    """An engine, an application without projectors on it, and writers."""

    def __init__(self, run: Run, engine: Engine, driver: InProcess) -> None:
        self.run, self.engine, self.driver = run, engine, driver
        self.stored = Stored(engine.client)
        self.known = Acknowledged()
        self._writers = [Writer(self._send, f"w{n}", f"{run.seed} {n}", self.known) for n in range(6)]

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return await self.driver.send(method, path, body, headers)

    def write(self, requests: int) -> None:
        """So many by every writer, all at once."""

        async def work() -> None:
            await asyncio.gather(*(writer.work(requests) for writer in self._writers))

        self.driver.run(work())

    def crowd(self) -> None:
        self.driver.run(crowd(self._send, "crowd", 130, self.known))

    @property
    def partitions(self) -> range:
        return range(len(self.stored.tags))

    def delete_some(self) -> None:
        """What a projector may have read before it was deleted."""
        for name in [name for name in self.known.seqs if name not in self.known.gone and name != "crowd"]:
            self.driver.request("DELETE", f"/v1/sessions/{name}", b"", {})
            self.known.gone.add(name)

    def project(self, partition: int) -> None:
        """By another projector, to the end."""
        assert not projecting(self.engine.url, partition).stopped()

    def never_behind(self, when: str) -> None:
        behind = self.stored.behind_the_checkpoint()
        self.run.check(not behind, f"{when}, models and checkpoint did not fit: {behind[:3]}")


@contextlib.contextmanager
def opened(run: Run, name: str, **settings: object) -> Generator[Store]:
    with Engine(run.folder / name) as engine:
        driver = InProcess(engine, background=False, **settings)
        try:
            yield Store(run, engine, driver)
        finally:
            driver.close()


def killed(run: Run, compared: Compared) -> None:
    """A projector is killed before and after each of its writes, with sessions at work in between."""
    deaths, unheard = 0, 0
    with opened(run, "killed") as store:
        store.crowd()
        for _ in range(run.pick(quick=1, full=6, mutated=1)):
            for at in range(1, run.pick(quick=3, full=7)):
                for where in ("before", "after"):
                    store.write(run.pick(quick=2, full=10))
                    for partition in store.partitions:
                        held = projecting(store.engine.url, partition, (at, where))
                        if not held.stopped():
                            unheard += 1
                            continue
                        store.never_behind(f"{where} write {at} of a projector")
                        held.kill()
                        deaths += 1
        store.never_behind("after the last death")
        compared.whole(store.engine, store.driver, "after projectors were killed")
    run.figure("projectors killed", deaths)


def meeting(run: Run, compared: Compared) -> None:
    """Two read the same; one writes and is killed before it moves the checkpoint; then the other writes too."""
    met = 0
    with opened(run, "meeting") as store:
        for _ in range(run.pick(quick=3, full=20)):
            store.write(run.pick(quick=6, full=20))
            for partition in store.partitions:
                first = projecting(store.engine.url, partition, (1, "before"))
                if not first.stopped():
                    continue
                second = projecting(store.engine.url, partition, (1, "after"))
                if second.stopped():
                    second.kill()
                first.go_on()
                met += 1
        compared.whole(store.engine, store.driver, "after two projected at once")
    run.figure("met", met)


def zombies(run: Run, compared: Compared) -> None:
    """They stop with a reading in hand, and go on when others have long projected more, sessions were deleted, and
    other generations are served. Nothing that is stored may change by that."""
    woken = 0
    with opened(run, "zombies") as store:
        for number in range(run.pick(quick=2, full=10)):
            store.write(run.pick(quick=6, full=20))
            asleep = [one for one in (_asleep(store, p, 1 + (p + number) % 2) for p in store.partitions) if one]
            if number % 2 == 0:
                store.delete_some()
            store.write(run.pick(quick=3, full=10))
            if number % 4 == 3:  # only at full size: who comes next waits until the locks of those that sleep are over
                asleep += [one for one in (_about_to_switch(store, partition) for partition in store.partitions) if one]
                compared.whole(store.engine, store.driver, "while projectors slept")
            for partition in store.partitions:
                store.project(partition)
            woken += _wake(store, asleep)
        compared.whole(store.engine, store.driver, "after projectors came back with old readings")
    run.figure("came back with an old reading", woken)


def _wake(store: Store, asleep: list[Held]) -> int:
    """How many there were."""
    before = store.stored.models_and_checkpoints()
    for held in asleep:
        if held.go_on():  # nothing mends what it wrote, if it wrote
            held.kill()
        now = store.stored.models_and_checkpoints()
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        told = [f"{key}: {str(before.get(key))[:300]} became {str(now.get(key))[:300]}" for key in changed[:3]]
        store.run.check(not changed, f"a projector with an old reading changed the models: {told}")
        store.never_behind("after a projector woke up")
    return len(asleep)


def _about_to_switch(store: Store, partition: int) -> Held | None:
    return _stopped(about_to_switch(store.engine.url, partition))


def _asleep(store: Store, partition: int, at: int) -> Held | None:
    """A projector before a write of its own: the first, or the one that moves the checkpoint. It stops once more after
    it."""
    return _stopped(projecting(store.engine.url, partition, (at, "before"), (at, "after")))


def _stopped(held: Held) -> Held | None:
    return held if held.stopped() else None


def meanwhile(run: Run, compared: Compared) -> None:
    """A rebuild stops half-way; sessions that it has read already go on, and some are deleted; then it ends."""
    stopped = 0
    with opened(run, "meanwhile") as store:
        for _ in range(run.pick(quick=1, full=10)):
            store.write(run.pick(quick=8, full=20))
            building = [one for one in (_stopped(rebuilding(store.engine.url, p)) for p in store.partitions) if one]
            store.write(run.pick(quick=8, full=20))
            for held in building:
                held.go_on()
                stopped += 1
        compared.whole(store.engine, store.driver, "after rebuilds during which sessions went on")
        store.write(2)
        compared.whole(store.engine, store.driver, "after commits that nobody has projected before the lists are read")
    run.figure("rebuilds with commits meanwhile", stopped)


def trimmed(run: Run, compared: Compared) -> None:
    """More is committed than the feed keeps, while nobody projects."""
    rounds = run.pick(quick=1, full=3)
    with opened(run, "trimmed", feed_keep=FEED_KEEP) as store:
        store.write(3)
        for partition in store.partitions:
            store.project(partition)
        for _ in range(rounds):
            while not _forgotten(store):
                store.write(20)
            store.delete_some()
            generations = [store.stored.served(tag) for tag in store.stored.tags]
            _lists(store)
            again = [store.stored.served(tag) for tag in store.stored.tags]
            run.check(all(a != b for a, b in zip(generations, again, strict=True)), "a trimmed feed was not noticed")
            compared.whole(store.engine, store.driver, "after the feed was trimmed behind the projectors")
    run.figure("commits while nobody projected", store.known.requests)


FEED_KEEP = 100


def _lists(store: Store) -> None:
    """Reading them is what brings the models up to date."""
    answer = store.driver.request("GET", "/v1/sessions", b"", {})
    store.run.check(answer.status == 200, f"a list after the feed was trimmed behind its models: {answer}")


def _forgotten(store: Store) -> bool:
    """Whether every partition's checkpoint is older than what its feed holds."""
    client = store.engine.client
    for tag in store.stored.tags:
        first = client.xrange(f"{tag}:feed", count=1)
        checkpoint = client.get(f"{tag}:proj:{store.stored.served(tag)}:checkpoint") or "0-0"
        if not first or _place(first[0][0]) <= _place(checkpoint):
            return False
    return True


def _place(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))
