"""Whether a store holds what its clients were told, once, and whether everything in it fits together.

Logs, snapshots and lists are read over HTTP, as clients read them; markers, deadlines, feed and chains in Redis.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from redis.asyncio import from_url

from eventstore.domain.values import timestamps
from eventstore.log.hash_chain import Verifier
from eventstore.redis_client.client import RedisClient
from eventstore.redis_keys import Keys, SessionKeys, member
from proofs.client import Client, page_through
from proofs.engines import EngineClient
from proofs.workload import Done, Journal

Check = Callable[[bool, str], None]
"""Raises `Breach` with these words unless it holds."""
Event = dict[str, Any]
TENANT = "default"
ASKED_AGAIN = 4
"""Of each session so many of the newest requests are sent once more."""
LISTED = 1_000
SETTLING = 5
"""So often is looked again, where a call may have expired between two reads."""


def misfits(journal: Journal, log: list[Event]) -> Iterator[str]:
    """Where the log of a session is not what its client was told, or cannot be at all."""
    seqs = [event["seq"] for event in log]
    if seqs != list(range(1, len(log) + 1)):
        yield f"the log is not dense: {_breaks(seqs)}"
    stored = [(event["data"]["n"], event["seq"]) for event in log if event["type"] == "note.taken"]
    if twice := [number for number, count in Counter(number for number, _ in stored).items() if count > 1]:
        yield f"notes {twice} stand more than once: {stored}"
    if lost := dict(journal.notes.items() - set(stored)):
        yield f"acknowledged (note: seq), but not stored there: {lost}"
    if more := dict(set(stored) - journal.notes.items()):
        yield f"stored (note: seq), though nobody was told so: {more}"
    for name, call in journal.calls.items():
        yield from _misfits_of_call(name, call, [event for event in log if event["data"].get("interrupt_id") == name])


def _misfits_of_call(name: str, call: dict[str, Any], events: list[Event]) -> Iterator[str]:
    count = Counter(event["type"] for event in events)
    seqs = {event["type"]: event["seq"] for event in events}
    told = f"call {name}, {call}: its log has {dict(count)} at {seqs}"
    if count["input.requested"] != 1:
        yield f"not asked once: {told}"
    if count["input.completed"] + count["input.expired"] > 1:
        yield f"more than one outcome: {told}"
    if seqs.get("input.completed") != call.get("decided"):
        yield f"decided elsewhere: {told}"
    if count["action.claimed"] != call.get("attempt", 0):
        yield f"claimed otherwise: {told}"
    if seqs.get("action.result") != call.get("result") or count["action.result"] > 1:
        yield f"another result: {told}"


class Audit:
    """Judges journals whose writers have ended: nothing of theirs is under way."""

    def __init__(
        self, check: Check, client: Client, engine_url: str, partitions: int, *, expiry_limit_s: float = 30.0
    ) -> None:
        """What is overdue has so long to be swept."""
        self._check, self._client, self._engine_url = check, client, engine_url
        self._redis: EngineClient = from_url(engine_url, decode_responses=True)
        self._expiry_limit_s = expiry_limit_s
        self._keys = Keys(partitions)

    async def all(self, journals: Sequence[Journal]) -> None:
        """Everything that this module knows. Raises `Breach`."""
        try:
            await self._all(journals)
        finally:
            await self._redis.aclose()

    async def _all(self, journals: Sequence[Journal]) -> None:
        await self.overdue_expires()
        living = [journal for journal in journals if not journal.deleted]
        for journal in journals:
            await (self._is_gone(journal) if journal.deleted else self._is_told(journal))
        await self.chains(journals)
        shown = {journal.session_id: await self._snapshot(journal) for journal in living}
        await self._lists(shown)
        for name, snapshot in shown.items():
            await self._indexes(self._keys.session(TENANT, name), snapshot)
            await self._feed(self._keys.session(TENANT, name), snapshot["seq"])

    async def overdue_expires(self) -> None:
        """What was due when this was called is swept by itself: nobody looks at these sessions meanwhile."""
        seconds, micros = await self._redis.execute_command("TIME")
        now, limit = int(seconds) * 1000 + int(micros) // 1000, self._expiry_limit_s
        give_up = time.monotonic() + limit
        while due := await self._due_until(now):
            self._check(time.monotonic() < give_up, f"overdue for {limit:.0f} s, and nobody swept it: {due[:3]}")
            await asyncio.sleep(0.02)

    async def _due_until(self, now: int) -> list[str]:
        pipe = self._redis.pipeline(transaction=False)
        for partition in self._keys.all_partitions():
            pipe.zrangebyscore(partition.deadlines, "-inf", now)
        return [name for found in await pipe.execute() for name in found]

    async def _is_gone(self, journal: Journal) -> None:
        answer = await self._client.request("GET", f"/v1/sessions/{journal.session_id}")
        self._check(answer.status == 410, f"{journal.session_id} was deleted; a read of it hears {answer}")
        parts = await self._redis.keys(f"{self._keys.session(TENANT, journal.session_id).base}:*")
        left = [part for part in parts if not part.endswith(":head")]
        self._check(not left, f"{journal.session_id} was deleted; left of it are {left}")

    async def _is_told(self, journal: Journal) -> None:
        """Each acknowledged effect stands once, where the answer said; each request hears its first answer again."""
        log = await page_through(self._client, journal.session_id)
        wrong = next(misfits(journal, log), "")
        self._check(not wrong, f"{journal.session_id}: {wrong}")
        for done in journal.done[-ASKED_AGAIN:]:
            await self.answers_again(done)

    async def answers_again(self, done: Done) -> None:
        """The same request, sent once more, hears its first answer and changes nothing."""
        headers = {"Idempotency-Key": done.key, "Content-Type": done.kind}
        again = await self._client.request("POST", done.path, done.sent, headers=headers)
        told = f"POST {done.path} {done.sent[:120]!r} heard {done.answer}, and sent once more {again}"
        self._check((again.status, again.body) == (done.answer.status, done.answer.body), told)
        self._check(again.headers.get("idempotency-replayed") == "true", f"not marked as replayed: {told}")

    async def chains(self, journals: Iterable[Journal]) -> None:
        """As `layby verify` has it."""
        connection = RedisClient(self._engine_url)
        try:
            verifier = Verifier(connection, self._keys)
            for journal in journals:
                verdict = await verifier.one(TENANT, journal.session_id)
                wanted = "deleted" if journal.deleted else "intact"
                why = f": {verdict.broken.why} at {verdict.broken.seq}" if verdict.broken else ""
                self._check(verdict.state == wanted, f"verify finds {journal.session_id} {verdict.state}{why}")
        finally:
            await connection.close()

    async def _snapshot(self, journal: Journal) -> dict[str, Any]:
        """What is stored and folded on equals what is folded from the events alone."""
        path, tries = f"/v1/sessions/{journal.session_id}", 0
        while True:  # a call may expire in between
            tries += 1
            now = await self._client.request("GET", path)
            then = await self._client.request("GET", f"{path}?at={now.json()['seq']}")
            after = await self._client.request("GET", path)
            if now.body == after.body or tries == SETTLING:
                break
        self._check(now.body == then.body, f"{path}: the model says {now.body!r}, its events say {then.body!r}")
        return now.json()

    async def _lists(self, shown: dict[str, dict[str, Any]]) -> None:
        """The list of sessions and the inbox, which are projected, say what the snapshots say."""
        tries = 0
        while True:
            tries += 1
            inbox = {(call["session_id"], call["interrupt_id"]) for call in await self._pages("/v1/calls", "calls")}
            rows = {row["session_id"]: row for row in await self._pages("/v1/sessions", "sessions")}
            wrong = [found for name in shown if (found := _mislisted(shown[name], rows.get(name), inbox))]
            if not wrong:
                return
            told = f"{wrong[0][1]}; of {len(shown)} sessions {len(wrong)} are listed wrong"
            self._check(tries < SETTLING, told)
            for name, _ in wrong:  # a call of it may have expired in between
                shown[name] = (await self._client.request("GET", f"/v1/sessions/{name}")).json()

    async def _pages(self, path: str, what: str) -> list[dict[str, Any]]:
        found, cursor = list[dict[str, Any]](), ""
        while True:
            answer = await self._client.request("GET", f"{path}?limit={LISTED}{f'&cursor={cursor}' if cursor else ''}")
            self._check(answer.status == 200, f"GET {path}: {answer}")
            page = answer.json()
            found += page[what]
            if not (cursor := page["next_cursor"]):
                return found

    async def _indexes(self, keys: SessionKeys, snapshot: dict[str, Any]) -> None:
        """Each call that waits has its marker, and the session its place in the index of deadlines; no other has."""
        due = {keys.due(call["interrupt_id"]): _ms(call["expires_at"]) for call in _pending(snapshot)}
        leases = [_ms(call["execution"]["lease_until"]) for call in snapshot["calls"] if _is_claimed(call)]
        nearest = min([*due.values(), *leases], default=None)
        pipe = self._redis.pipeline(transaction=False)
        pipe.zscore(keys.partition.deadlines, keys.member)
        pipe.hmget(keys.head, "due", "seq")
        pipe.keys(f"{keys.base}:due:*")
        for marker in due:
            pipe.pexpiretime(marker)
        score, (head_due, seq), markers, *until = await pipe.execute()
        if int(seq) != snapshot["seq"] or any(time.time() * 1000 + 500 > at for at in due.values()):
            return  # it moves on just now; another audit looks at it
        told = f"{keys.session_id}: open calls say {nearest}, the index {score}, the head {head_due!r}"
        stored = score and int(score), head_due and int(head_due)
        self._check(stored == (nearest, nearest or ""), f"deadlines: {told}")
        self._check(set(markers) == set(due), f"{keys.session_id}: markers are {markers}, waiting calls {due}")
        self._check(until == list(due.values()), f"{keys.session_id}: markers expire at {until}, the calls {due}")

    async def _feed(self, keys: SessionKeys, seq: int) -> None:
        """Every event is announced to followers of all sessions, once."""
        entries = await self._redis.xrange(keys.partition.feed)
        of_session = [fields for _, fields in entries if member(fields["t"], fields["s"]) == keys.member]
        spans = [(int(fields["f"]), int(fields["l"])) for fields in of_session]
        firsts, lasts = [first for first, _ in spans], [last for _, last in spans]
        whole = firsts == [1, *(last + 1 for last in lasts[:-1])] and lasts[-1:] >= [seq]
        self._check(whole, f"{keys.session_id} has {seq} events; the feed has {spans}")


def _mislisted(
    snapshot: dict[str, Any], row: dict[str, Any] | None, inbox: set[tuple[str, str]]
) -> tuple[str, str] | None:
    """Which session, and what is wrong with how it is listed."""
    name = snapshot["session_id"]
    is_ = {key: snapshot[key] for key in ("seq", "status", "parked", "updated_at")}
    if row is None or not is_.items() <= row.items():
        return name, f"{name} is listed as {row}, but is {is_}"
    waiting = {(name, call["interrupt_id"]) for call in _pending(snapshot) if call["expires_at"] > _soon()}
    return (name, f"{name}: the inbox lacks {waiting - inbox}") if waiting - inbox else None


def _pending(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    return [call for call in snapshot["calls"] if call["status"] == "PENDING_APPROVAL"]


def _is_claimed(call: dict[str, Any]) -> bool:
    return bool(call["execution"]) and call["execution"]["state"] == "claimed"


def _ms(time_: str) -> int:
    return timestamps.parse(time_)


def _soon() -> str:
    return timestamps.text(int(time.time() * 1000) + 2_000)


def _breaks(seqs: list[int]) -> list[tuple[int, int]]:
    return [(one, following) for one, following in zip([0, *seqs], seqs, strict=False) if following != one + 1]
