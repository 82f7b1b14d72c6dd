"""Named points of a product that has none: where they stand, and how a copy of the tree with them in it is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proofs import builds
from proofs.proof import Patch


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in the life of a commit. It stands before the statement that begins with `where`, wherever `when`
    holds."""

    name: str
    file: str
    where: str
    when: str = ""
    by: str = "load"
    """What reaches it: `load`, `start` of a server with an embedded engine, `restart` of its engine, `rebuild`."""
    call: str = ""
    """What stands there; that the point is reached, unless said otherwise."""

    @property
    def patch(self) -> Patch:
        call = "__import__('proofs.faults').faults." + (self.call or f"reach({self.name!r})")
        return Patch(self.file, self.where, f"{f'{self.when} and ' if self.when else ''}{call}; {self.where}")


def build(target: Path) -> Path:
    """A copy of the tree that is proved, with every point in it. Raises `LookupError`."""
    root = builds.copy(target)
    for point in POINTS:
        point.patch.apply(root)
    return root


WRITER = "eventstore/commit/writer.py"
EMBEDDED = "eventstore/embedded/engine.py"
REBUILD = "projections/projector/rebuild.py"
_TOLD = "self._listener.committed(lane.keys, commit.head, commit.lines)"
_TAKEN_IN = "await self._apply(unread.checkpoint, Writes(), unread.last)"

POINTS = (
    Point("commit-decided", WRITER, "reply, reached = await self._commits.run(commit.script_call("),
    Point(
        "commit-sent", "eventstore/commit/records.py", 'log = logging.getLogger("layby.store")',
        call='watch_sending("commit-sent", COMMIT.sha, DELETE.sha)',
    ),
    Point("commit-answered", WRITER, "word, now = reply[0].decode(), int(reply[1])"),
    Point("claim-committed", WRITER, _TOLD, 'any(line.type == "action.claimed" for line in commit.lines)'),
    Point("decision-committed", WRITER, _TOLD, 'any(line.type == "input.completed" for line in commit.lines)'),
    Point("expiry-committed", WRITER, _TOLD, 'any(line.type == "input.expired" for line in commit.lines)'),
    Point("deletion-committed", WRITER, "self._listener.committed(keys, Head(DELETED), [])"),
    Point(
        "answer-leaves", "api/middleware/error_boundary.py", "seconds = time.perf_counter() - self._began",
        'self._scope["method"] in ("POST", "DELETE")',
    ),
    Point("key-held", "api/requests/idempotency.py", "name = anchor.session_id if anchor else session_id", "anchor"),
    Point(
        "found-due", "eventstore/commit/deadline_sweeper.py",
        "await self._writer.execute(tenant, session_id, ExpireDue(), SYSTEM)",
    ),
    Point("models-folded", "projections/projector/generation.py", "await self._store(checkpoint, folded)"),
    Point("checkpoint-behind", "projections/projector/generation.py", _TAKEN_IN),
    Point("engine-not-started", EMBEDDED, "self._process = await EngineProcess.launch(", by="start"),
    Point("engine-spawned", "eventstore/embedded/process.py", "lock.name_holder(process.pid)", by="start"),
    Point("engine-started", EMBEDDED, "self._keeper = asyncio.create_task(self._keep_running(", by="start"),
    Point("engine-gone", EMBEDDED, "strikes = 0 if clock() - born > CALM_S else strikes + 1", by="restart"),
    Point("rebuild-half-way", REBUILD, "done += len(targets)", by="rebuild"),
    Point("rebuild-whole", REBUILD, "reply = await self._connection.run(ScriptCall(SWITCH,", by="rebuild"),
    Point("rebuild-switched", REBUILD, 'log.info("partition %s: generation', by="rebuild"),
)  # fmt: skip
