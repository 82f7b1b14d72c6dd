"""Reads of the log and of calls. A read that meets something overdue lets it take effect first."""

from __future__ import annotations

from dataclasses import replace

from eventstore.commit.records import (
    Head,
    Loaded,
    LogPage,
    decode_loaded,
    decode_page,
    load_call,
    lost,
    read_call,
    refuse_absent,
)
from eventstore.commit.writer import Writer
from eventstore.domain.call import Call
from eventstore.domain.commands import ExpireDue
from eventstore.domain.draft import SYSTEM
from eventstore.domain.errors import CallNotFound, InvalidSnapshot
from eventstore.log.range_reader import RangeReader, fitting
from eventstore.redis_client.clock import Clocks
from eventstore.redis_client.pipeline import ScriptPipeline
from eventstore.redis_keys import SessionKeys

PAGE_BYTES = 1024 * 1024


class LogReader:
    """What is stored of a session, as of now."""

    def __init__(self, reads: ScriptPipeline, stretches: RangeReader, clocks: Clocks, writer: Writer) -> None:
        self._reads: ScriptPipeline = reads
        self._stretches: RangeReader = stretches
        self._clocks: Clocks = clocks
        self._writer: Writer = writer

    async def page(self, keys: SessionKeys, start: int, limit: int, *, descending: bool = False) -> LogPage:
        """Lines from `start` on (0 the end, negative from the end), by count and bytes, never less than one if there
        is one. Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`."""
        page = await self.raw_page(keys, start, limit, descending=descending)
        if page.due is not None and page.due <= page.now:
            await self.expire(keys)
            page = await self.raw_page(keys, start, limit, descending=descending)
        refuse_absent(page.revision)
        return page

    async def raw_page(self, keys: SessionKeys, start: int, limit: int, *, descending: bool = False) -> LogPage:
        """The same as it stands, whether the session exists or not. Raises `StoreUnavailable`, also for a lost log."""
        reply = await self._reads.reply(read_call(keys, start, limit, PAGE_BYTES, descending=descending))
        page = decode_page(reply)
        self._clocks.of(keys.partition.number).observe(page.now)
        if limit and not page.lines and 1 <= page.first <= page.last_seq:
            raise lost(keys, page.first)
        return page

    async def page_after(self, keys: SessionKeys, page: LogPage, limit: int) -> LogPage:
        """The lines that follow on an ascending page. Of a long history they come without what is known of the session,
        which is then told as that page has it. Raises as `page` does."""
        seq = page.first + len(page.lines)
        count = fitting(page.lines, min(limit, page.last_seq - seq + 1))
        if count and (stretch := await self._stretches.read(keys, seq, page.hash, count)):
            return replace(page, first=seq, lines=stretch.lines, before=page.hash, hash=stretch.hash)
        return await self.page(keys, seq, limit)

    async def head(self, keys: SessionKeys) -> Head:
        """The write-side state. Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`."""
        return (await self._load(keys, [])).head

    async def call(self, keys: SessionKeys, interrupt_id: str) -> Call:
        """One call. Raises `CallNotFound` and `InvalidSnapshot` besides."""
        call = (await self._load(keys, [interrupt_id])).calls[interrupt_id]
        if isinstance(call, InvalidSnapshot):
            raise call
        if not isinstance(call, Call):
            raise CallNotFound(f"session {keys.session_id} has no call {interrupt_id}")
        return call

    async def expire(self, keys: SessionKeys) -> None:
        """Let what is due in this session take effect."""
        await self._writer.execute(keys.tenant, keys.session_id, ExpireDue(), SYSTEM)

    async def _load(self, keys: SessionKeys, names: list[str]) -> Loaded:
        loaded = await self._read(keys, names)
        due = loaded.head.session.next_due
        if due is not None and due <= loaded.now:
            await self.expire(keys)
            loaded = await self._read(keys, names)
        refuse_absent(loaded.head.revision)
        return loaded

    async def _read(self, keys: SessionKeys, names: list[str]) -> Loaded:
        loaded = decode_loaded(keys.session_id, await self._reads.reply(load_call(keys, names)), names)
        self._clocks.of(keys.partition.number).observe(loaded.now)
        return loaded
