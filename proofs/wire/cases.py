"""One request, one fault, and what may come of it: one effect, and one answer however often it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from proofs.client import Answer, Client, page_through
from proofs.proof import Run
from proofs.proxy import Fault
from proofs.wire.kinds import Kind, Scene

_CUT = (OSError, EOFError, ValueError, TimeoutError)
Types = Counter[str]


@dataclass(slots=True)
class Effect:
    """What a kind of request leads to, as it was seen without any fault: the types in the log, before and after."""

    before: Types
    after: Types


@dataclass(slots=True)
class Cases:
    """Runs cases, and remembers what is to be looked at once more in the end."""

    run: Run
    straight: Callable[[], Client]
    """A client that no fault befalls."""
    effects: dict[str, Effect] = field(default_factory=dict[str, Effect])
    sessions: set[str] = field(default_factory=set[str])
    unsure: list[tuple[str, Kind, str]] = field(default_factory=list[tuple[str, Kind, str]])
    keyed: int = 0
    keyless: int = 0
    deletions: int = 0
    repeated: int = 0

    async def learn(self, kind: Kind) -> None:
        """See what this kind does when nothing goes wrong."""
        async with self.straight() as client:
            scene = await self._scene(kind, client, f"{_slug(kind.name)}-straight")
            before = Types() if kind.makes else await self._types(client, scene.session_id)
            answer = await client.request(
                kind.method, kind.path(scene), kind.sent(scene), headers=_headers(kind, kind.name)
            )
            self.run.check(answer.status < 300, f"{kind.name}, without a fault, heard {answer}")
            name = kind.session_of(scene, answer)
            self.sessions.add(name)
            self.effects[kind.name] = Effect(before, await self._types(client, name))

    async def with_key(self, kind: Kind, fault: Fault, client: Client, where: str) -> None:
        """The client repeats the request with its key until it is answered."""
        async with self.straight() as straight, client:
            scene = await self._scene(kind, straight, f"{_slug(kind.name)}-{_slug(fault.name)}-{where}")
            key, path, sent = f"{scene.session_id} it", kind.path(scene), kind.sent(scene)
            headers = _headers(kind, key)
            answer, tries = await client.insist("POST", path, sent, key=key, headers=headers)
            told = f"{kind.name}, {fault.name}, {where}: heard {answer} after {tries} tries"
            self.run.check(answer.status < 300, told)
            self._marked(answer, tries, fault, where, told)
            again = await straight.request("POST", path, sent, headers=headers)
            self.run.check((again.status, again.body) == (answer.status, answer.body), f"{told}, and then {again}")
            self.run.check(_is_replayed(again), f"{told}; the same once more is not marked as replayed")
            name = kind.session_of(scene, answer)
            self.sessions.add(name)
            found, wanted = await self._types(straight, name), self.effects[kind.name].after
            self.run.check(found == wanted, f"{told}; its log has {dict(found)}, one effect is {dict(wanted)}")
            self.keyed, self.repeated = self.keyed + 1, self.repeated + (tries > 1)

    def _marked(self, answer: Answer, tries: int, fault: Fault, where: str, told: str) -> None:
        """The first answer is none that was given before; a lost one is."""
        if tries == 1:
            self.run.check(not _is_replayed(answer), f"{told}; marked as replayed, though it was never answered before")
        elif where == "client" and fault.replies is not None:
            self.run.check(_is_replayed(answer), f"{told}; not marked as replayed, though it was done before")

    async def without_key(self, kind: Kind, fault: Fault, client: Client, where: str) -> None:
        """The client does not repeat it: it has its effect once if that was answered, and at most once if not."""
        async with self.straight() as straight, client:
            scene = await self._scene(kind, straight, f"{_slug(kind.name)}-{_slug(fault.name)}-{where}-once")
            answer = await _once(client, kind, scene)
            told = f"{kind.name}, {fault.name}, {where}, sent once: heard {answer}"
            self.run.check(answer is None or answer.status < 300 or answer.status == 503, told)
            name = kind.session_of(scene, answer)
            if answer and answer.status < 300:
                self.sessions.add(name)
                found, wanted = await self._types(straight, name), self.effects[kind.name].after
                self.run.check(found == wanted, f"{told}; its log has {dict(found)}, one effect is {dict(wanted)}")
            else:
                self.unsure.append((name, kind, told))
            self.keyless += 1

    async def deletion(self, kind: Kind, fault: Fault, client: Client, where: str) -> None:
        """Repeated until it is answered; where only the engine's answer was lost, the first one tells of success."""
        async with self.straight() as straight, client:
            self.deletions += 1
            name = f"delete-{self.deletions}-{_slug(fault.name)}-{where}"
            scene = await self._scene(kind, straight, name)
            tries, answer = 0, None
            while answer is None or answer.status == 503:
                tries, answer = tries + 1, await _once(client, kind, scene)
                self.run.check(tries < 100, f"{scene.path} cannot be deleted: {answer}")
            told = f"delete, {fault.name}, {where}: heard {answer} after {tries} tries"
            self.run.check(answer.status in ((204,) if tries == 1 else (204, 410)), told)
            after = await straight.request("GET", scene.path)
            self.run.check(after.status == 410, f"{told}; a read of it then heard {after}")
            self.sessions.discard(scene.session_id)

    async def settle(self) -> None:
        """What nobody repeated, and nobody answered, has happened once or not at all."""
        async with self.straight() as client:
            for name, kind, told in self.unsure:
                found, effect = await self._types(client, name), self.effects[kind.name]
                self.run.check(found in (effect.before, effect.after), f"{told}; its log has {dict(found)}")
                if found:
                    self.sessions.add(name)

    async def _scene(self, kind: Kind, client: Client, name: str) -> Scene:
        scene = Scene(name, client)
        for step in kind.prepare:
            await step(scene)
        if kind.prepare:
            self.sessions.add(scene.session_id)
        return scene

    async def _types(self, client: Client, session_id: str) -> Types:
        try:
            return Types(event["type"] for event in await page_through(client, session_id))
        except ValueError as error:
            if "session-not-found" in str(error):
                return Types()
            raise


async def _once(client: Client, kind: Kind, scene: Scene) -> Answer | None:
    try:
        headers = {"Content-Type": kind.content_type}
        return await client.request(kind.method, kind.path(scene), kind.sent(scene), headers=headers)
    except _CUT:
        return None


def _headers(kind: Kind, key: str) -> dict[str, str]:
    return {"Content-Type": kind.content_type, "Idempotency-Key": key}


def _is_replayed(answer: Answer) -> bool:
    return answer.headers.get("idempotency-replayed") == "true"


def _slug(words: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in words)
