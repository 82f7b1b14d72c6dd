"""Publishers whose lines are cut anywhere: in the handshake, within a frame, before an answer. They connect again, and
repeat under the same ids what was not answered.

However often that is: in the end each message is in the log once, in the order of the ids, at the seqs that its answer
named; and whoever repeats it hears that answer again.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from proofs.client import Client, page_through
from proofs.line import Goodbye, Line, Refused, frame, opened_line
from proofs.proof import Run
from proofs.proxy import CUT_BEFORE, SILENT_AFTER, SILENT_BEFORE, SLOW, SPLIT, Fault, Proxy

SESSIONS = 2
PRODUCERS = 4
"""Lines to one session."""
AHEAD = 100
"""So many messages may be sent ahead of their answers: more than the server takes."""
AT_ONCE = 4
OFTEN = 0.5
"""How much of what a client writes at once meets a fault; handshakes too."""
IMPATIENT_S = 1.5
_CUT = (OSError, EOFError, TimeoutError)


@dataclass(slots=True)
class Publisher:
    """One producer. The id of a message is its place among the messages."""

    run: Run
    session_id: str
    name: str
    messages: list[bytes]
    chance: random.Random
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    connections: int = 0
    repeated: int = 0
    _ahead: int = 0

    @property
    def path(self) -> str:
        return f"/v1/sessions/{self.session_id}/publish?producer={self.name}"

    async def publish(self, port: int) -> None:
        """Until every message is answered."""
        while len(self.answers) < len(self.messages):
            self.connections += 1
            try:
                async with opened_line(port, self.path, limit_s=IMPATIENT_S) as line:
                    await self._talk(line)
            except _CUT:
                continue
            except (Refused, Goodbye) as error:
                self.run.check(False, f"{self.name}, {len(self.answers)} answered, was sent away: {error}")

    async def _talk(self, line: Line) -> None:
        sent = len(self.answers)
        self.repeated += self._ahead - sent
        while (answered := len(self.answers)) < len(self.messages):
            most = min(len(self.messages), answered + AHEAD, sent + self.chance.randint(1, AT_ONCE))
            if most > sent:
                more, sent = self.messages[sent:most], most
                self._ahead = max(self._ahead, sent)
                await line.send(b"".join(map(frame, more)))
            async with asyncio.timeout(IMPATIENT_S):
                self._take(await line.answer())

    def _take(self, answer: dict[str, Any]) -> None:
        wanted = str(len(self.answers))
        self.run.check(answer["id"] == wanted, f"{self.name} waits for the answer to {wanted}, and hears {answer}")
        self.run.check("problem" not in answer, f"{self.name} was refused: {answer}")
        self.answers.append(answer)

    async def repeat(self, port: int) -> None:
        """Everything once more, over a line that nothing befalls: each message hears its first answer."""
        again = Publisher(self.run, self.session_id, self.name, self.messages, self.chance)
        await again.publish(port)
        for first, second in zip(self.answers, again.answers, strict=True):
            self.run.check(first == second, f"{self.name} heard {first}, and when it repeated that, {second}")

    def judge(self, log: list[dict[str, Any]]) -> None:
        """Of what it sent, the log of its session has what it was told: nothing twice, and in this order."""
        found = ((event["seq"], event["data"]) for event in log if event.get("data", {}).get("of") == self.name)
        for told, stands in zip_longest(self._told(), found):
            self.run.check(
                told == stands,
                f"{self.name}, over {self.connections} lines, was told of {_shown(told)}; its session has"
                f" {_shown(stands)} there",
            )

    def _told(self) -> Iterator[tuple[int, Any]]:
        """Each event of its messages, at the seq that an answer named."""
        for message, answer in zip(self.messages, self.answers, strict=True):
            for event, place in zip(json.loads(message)["events"], answer["events"], strict=False):
                yield place["seq"], event["data"]


def _shown(event: tuple[int, Any] | None) -> str:
    return f"event {event[1]['part']} of message {event[1]['message']} at seq {event[0]}" if event else "nothing"


async def prove(run: Run, url: str, client: Client, count: int) -> None:
    """Each publisher has so many messages."""
    chance = random.Random(run.seed)
    names = [f"of-lines-{number}" for number in range(SESSIONS)]
    publishers = [_publisher(run, name, number, count) for name in names for number in range(PRODUCERS)]
    async with client, Proxy(url, concerns=lambda _: True) as proxy:
        for name in names:
            await client.insist("POST", "/v1/sessions", {"session_id": name})
        proxy.choose = lambda: _fault(chance)
        async with asyncio.TaskGroup() as group:
            for publisher in publishers:
                group.create_task(publisher.publish(proxy.port))
        await _judge(run, client, publishers)
        await asyncio.gather(*(publisher.repeat(client.port) for publisher in publishers))
        await _judge(run, client, publishers)
    run.figure("messages on lines", sum(len(publisher.answers) for publisher in publishers))
    run.figure("lines cut", sum(publisher.connections - 1 for publisher in publishers))
    run.figure("messages repeated", sum(publisher.repeated for publisher in publishers))


async def _judge(run: Run, client: Client, publishers: list[Publisher]) -> None:
    """What they were told stands in the logs, and nothing else."""
    for name in {publisher.session_id for publisher in publishers}:
        log, told = await page_through(client, name), 0
        for publisher in publishers:
            if publisher.session_id == name:
                publisher.judge(log)
                told += sum(len(answer["events"]) for answer in publisher.answers)
        run.check(
            len(log) == 1 + told, f"{name} has {len(log)} events; {told} were acknowledged, and it began with one"
        )


def _publisher(run: Run, session_id: str, number: int, count: int) -> Publisher:
    chance, name = random.Random(f"{run.seed} {session_id} {number}"), f"producer-{number}"
    return Publisher(run, session_id, name, [_message(name, n, chance) for n in range(count)], chance)


def _message(name: str, number: int, chance: random.Random) -> bytes:
    """One to three events, most of them small."""
    known = {"of": name, "message": number, "padding": "x" * chance.choice((0, 0, 0, 0, 100, 1_000))}
    events = [{"type": "note.taken", "data": {**known, "part": part}} for part in range(chance.randint(1, 3))]
    return json.dumps({"id": str(number), "events": events}).encode()


def _fault(chance: random.Random) -> Fault | None:
    """Some are rare, since whoever meets them waits long."""
    if chance.random() >= OFTEN:
        return None
    ends, replies = chance.choice(("fin", "rst")), chance.choice((0, chance.randrange(300), chance.randrange(3_000)))
    within = Fault("cut within what was sent", lambda data: chance.randrange(len(data)), ends=ends)
    before = Fault("cut within the answers", replies=replies, ends=ends)
    return chance.choices((within, before, CUT_BEFORE, SLOW, SPLIT, SILENT_BEFORE, SILENT_AFTER), _WEIGHTS)[0]


_WEIGHTS = (40, 40, 5, 5, 2, 1, 1)
