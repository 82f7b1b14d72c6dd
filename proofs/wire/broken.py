"""Faults that the wire proof must catch."""

from __future__ import annotations

from proofs.proof import Mutation, Patch

MUTATIONS = (
    Mutation(
        "a-commit-sent-again-is-another",
        (
            Patch("eventstore/lua/commit.lua", "if head[1] == ARGV[2] then", "if false then"),
            Patch("eventstore/commit/writer.py", "writers.get(self._process) == commit.revision", "writers is None"),
        ),
        {"part": "engine", "fault": "cut before the reply"},
    ),
    Mutation(
        "retry-records-are-not-looked-up",
        (
            Patch("eventstore/lua/load_session.lua", "and redis.call('HGET', KEYS[3], ARGV[n])", "and false"),
            Patch("eventstore/lua/commit.lua", "if until_ms and tonumber(until_ms) > now then", "if false then"),
        ),
        {"part": "client", "fault": "cut before the reply"},
    ),
    Mutation(
        "a-body-cut-short-is-taken-for-whole",
        (Patch("api/requests/bodies.py", "            raise ClientDisconnect\n", "            return bytes(body)\n"),),
        {"part": "client", "kind": "publish lines"},
    ),
    Mutation(
        "a-retry-makes-another-session",
        (
            Patch(
                "api/requests/idempotency.py",
                "ids.derived_id(PREFIX, *sources, str(generation))",
                "ids.random_id(PREFIX)",
            ),
        ),
        {"part": "client", "kind": "create, unnamed"},
    ),
    Mutation(
        "a-deletion-sent-again-is-refused",
        (Patch("eventstore/lua/delete_session.lua", "if head[1] == 'deleted' and", "if false and"),),
        {"part": "engine", "fault": "cut before the reply"},
    ),
    Mutation(
        "a-reader-resumes-at-what-it-had",
        (
            Patch(
                "api/routes/session_stream.py",
                "asked if last_id is None else last_id + 1",
                "asked if last_id is None else last_id",
            ),
        ),
        {"part": "tails"},
    ),
    Mutation(
        "a-line-forgets-what-it-carried-out",
        (Patch("api/publish_line/publisher.py", "if self.producer is None:", "if True:"),),
        {"part": "lines"},
    ),
    Mutation(
        "what-follows-a-repeat-overtakes-it",
        (
            Patch(
                "api/publish_line/in_flight.py",
                "        self._held_up = True\n\n        def again",
                "        self._held_up = False\n\n        def again",
            ),
        ),
        {"part": "lines"},
    ),
)
