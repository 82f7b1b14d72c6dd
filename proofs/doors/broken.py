"""Faults that this proof must catch."""

from __future__ import annotations

from proofs.proof import Mutation, Patch

MUTATIONS = (
    Mutation(
        "one-tenant-for-all",
        (Patch("api/http/authentication.py", "Principal(key.tenant, _actor", "Principal(DEFAULT_TENANT, _actor"),),
    ),
    Mutation(
        "a-cursor-opens-every-feed",
        (Patch("eventstore/feed/tenant_feed.py", "Seal(self._secret, tenant)", 'Seal(self._secret, "anybody")'),),
    ),
    Mutation(
        "anybody-speaks-for-a-person",
        (Patch("api/http/authentication.py", "if _persons(request) and not key.may(ACT_AS):", "if False:"),),
    ),
    Mutation(
        "any-scope-opens",
        (Patch("eventstore/domain/api_keys.py", "return scope == ANY or scope in self.scopes", "return True"),),
    ),
    Mutation(
        "revoked-is-live", (Patch("eventstore/domain/api_keys.py", "return self.revoked_at is None and (", "return ("),)
    ),
    Mutation(
        "streams-outlive-their-key",
        (Patch("api/streaming/open_responses.py", "[key_id for key_id in self._open if not admits(key_id)]", "[]"),),
    ),
    Mutation(
        "lines-outlive-their-key",
        (Patch("api/publish_line/route.py", "            await self._cut(row)\n", "            await row.answer()\n"),),
    ),
)
