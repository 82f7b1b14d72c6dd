"""Faults that this proof must catch."""

from __future__ import annotations

from proofs.proof import Mutation, Patch

MUTATIONS = (
    Mutation(
        "a-garbled-place-is-taken",
        (
            Patch(
                "api/routes/session_stream.py",
                '_POINT = re.compile(r"now|-?[1-9][0-9]*", re.ASCII)',
                '_POINT = re.compile(r"now|-?[0-9]+")',
            ),
        ),
        {"part": "wire"},
    ),
    Mutation(
        "a-broken-line-is-passed-over",
        (Patch("api/requests/events.py", 'raise bad_json(error, f"/{len(events)}") from None', "continue"),),
        {"part": "wire"},
    ),
    Mutation(
        "a-fault-of-ours-is-told-as-one",
        (Patch("eventstore/domain/values/json_text.py", "except RecursionError", "except MemoryError"),),
        {"part": "wire"},
    ),
    Mutation(
        "an-answer-differs-from-its-description",
        (Patch("eventstore/domain/decider.py", '"status": session.status,', '"state": session.status,'),),
        {"part": "document"},
    ),
    Mutation(
        "a-line-ends-before-it-has-answered",
        (
            Patch(
                "api/publish_line/in_flight.py",
                "if self.socket.over and not self._row and not self._held_up:",
                "if self.socket.over:",
            ),
        ),
        {"part": "lines"},
    ),
    Mutation(
        "small-frames-hold-up-the-others",
        (Patch("api/websocket/connection.py", "elif looks >= LOOKS:", "elif False:"),),
        {"part": "floods"},
    ),
)
