"""Faults that the crash proof must catch."""

from __future__ import annotations

from proofs.proof import Mutation, Patch

_WRITER = "eventstore/commit/writer.py"
_SWEEPER = "eventstore/commit/deadline_sweeper.py"
_COMMIT = "        reply, reached = await self._commits.run(commit.script_call(self._feed_keep))\n"
_ACKNOWLEDGED = "            lane.committed(commit)\n"
_RECORDS = """\
            for name, record in commit.records.items():
                kept = [("HSET", lane.keys.dedup, name, record), ("ZADD", lane.keys.dedup_age, now + 86_400_000, name)]
                await self._reads._connection.commands(kept)
"""
_DEADLINE = """\
            if (due := commit.session.next_due) is not None:
                index = lane.keys.partition.deadlines
                await self._reads._connection.command("ZADD", index, due, lane.keys.member)
"""

MUTATIONS = (
    Mutation(
        "acknowledged-before-the-commit",
        (Patch(_WRITER, _COMMIT, f'        lane.resolve(batch, "fsync")\n{_COMMIT}'),),
        {"part": "kills", "kill": "private hung random"},
    ),
    Mutation(
        "retry-record-after-the-commit",
        (
            Patch("eventstore/lua/commit.lua", "if retries > 0 then\n", "if retries > 0 and false then\n"),
            Patch(_WRITER, _ACKNOWLEDGED, _ACKNOWLEDGED + _RECORDS),
        ),
        {"part": "kills", "kill": "separate server commit-sent"},
    ),
    Mutation(
        "deadline-after-the-commit",
        (
            Patch("eventstore/lua/commit.lua", "  redis.call('ZADD', KEYS[6], ARGV[7], ARGV[8])\n", ""),
            Patch(_WRITER, _ACKNOWLEDGED, _ACKNOWLEDGED + _DEADLINE),
        ),
        {"part": "cuts"},
    ),
    Mutation(
        "no-look-at-the-index-after-a-start",
        (
            Patch(_SWEEPER, "        self._scan_at: float = 0.0\n", "        self._scan_at: float = math.inf\n"),
            Patch(_SWEEPER, "        self._scan_at, self._goes_on = 0.0, False\n", ""),
        ),
        {"part": "kills", "kill": "separate away random"},
    ),
    Mutation(
        "checkpoint-before-the-models",
        (
            Patch(
                "projections/projector/generation.py",
                "        targets = [\n            Target(self._keys.session(*member)",
                "        await self._apply(unread.checkpoint, Writes(), following=unread.last)\n"
                "        unread = __import__('dataclasses').replace(unread, checkpoint=unread.last)\n"
                "        targets = [\n            Target(self._keys.session(*member)",
            ),
        ),
        {"part": "kills", "kill": "separate server models-folded"},
    ),
)  # fmt: skip
