"""Faults that this proof must catch."""

from __future__ import annotations

from proofs.proof import Mutation, Patch

MUTATIONS = (
    Mutation(
        "one-tenant-for-all",
        (Patch("api/principal.py", "Principal(key.tenant, _actor", "Principal(DEFAULT_TENANT, _actor"),),
    ),
    Mutation(
        "a-cursor-opens-every-feed",
        (Patch("eventstore/feed.py", "Seal(self._secret, tenant)", 'Seal(self._secret, "anybody")'),),
    ),
    Mutation(
        "anybody-speaks-for-a-person",
        (Patch("api/principal.py", "if _persons(request) and not key.may(ACT_AS):", "if False:"),),
    ),
    Mutation(
        "any-scope-opens",
        (Patch("eventstore/domain/access.py", "return scope == ANY or scope in self.scopes", "return True"),),
    ),
    Mutation(
        "revoked-is-live", (Patch("eventstore/domain/access.py", "return self.revoked_at is None and (", "return ("),)
    ),
    Mutation(
        "streams-outlive-their-key",
        (Patch("api/live.py", "[key_id for key_id in self._open if not admits(key_id)]", "[]"),),
    ),
    Mutation(
        "lines-outlive-their-key",
        (Patch("api/line.py", "            await self._cut(row)\n", "            await row.answer()\n"),),
    ),
)
