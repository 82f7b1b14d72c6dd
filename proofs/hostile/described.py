"""Every route as `/openapi.json` describes it: requests that fit, requests that do not, and whether each answer is one
that the document foretells, to the last header and member.

Names of things are made up as the schema allows, or those of sessions and calls that are there, in every state.
"""

from __future__ import annotations

import uuid
from typing import Any, cast

import requests
import schemathesis
import schemathesis.checks
import schemathesis.specs.openapi.checks
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Err, Result

from proofs.client import is_object
from proofs.proof import Breach, Run
from proofs.servers import Server

ENDLESS = {"followAll", "followSession", "zhinStream"}
"""Operations whose answer need not end: they are taken by `proofs.hostile.cases`."""
ANSWERED_S = 20.0
KINDS = ("waiting", "approved", "claimed", "done", "rejected", "authorization", "ended")
TELLING = ("layby-", "etag", "location", "retry-after", "www-authenticate", "allow", "idempotency-", "vary")
"""Headers, or how they begin, that tell a client something; the document must name them."""


def headers_are_described(context: Any, response: Any, case: Any) -> None:
    """A check beside those of schemathesis, which asks only for what is described."""
    answers = case.operation.definition.raw["responses"]
    described = {name.lower() for name in answers.get(str(response.status_code), {}).get("headers", {})}
    told = {name.lower() for name in response.headers if name.lower().startswith(TELLING)}
    assert told <= described, f"{response.status_code} has {told - described}, which nothing describes"


# Any: what these take are types of schemathesis whose parameters it leaves open.
general: Any = schemathesis.checks
checks: Any = schemathesis.specs.openapi.checks
ANSWER_CHECKS: list[Any] = [
    general.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    headers_are_described,
]


class Described:
    """Requests made from the document, to one server."""

    def __init__(self, run: Run, server: Server) -> None:
        self.sent = 0
        self._run, self._server = run, server
        self._session = requests.Session()
        self._names: dict[str, tuple[str, str]] = {}

    def prove(self, examples: int) -> None:
        """So many requests of each kind to each operation. Raises `Breach` with the smallest that shows a fault."""
        document: Any = schemathesis.openapi.from_url(f"{self._server.url}/openapi.json")
        results: list[Result[Any, Exception]] = list(document.get_all_operations())
        for result in results:
            if isinstance(result, Err):
                raise result.err()
            operation = result.ok()
            if operation.definition.raw["operationId"] not in ENDLESS:
                self._one(operation, examples)

    def _one(self, operation: Any, examples: int) -> None:
        self._run.progress(f"{operation.label}: {self.sent} requests so far")
        fits, not_ = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)
        self._try(fits, examples, [*ANSWER_CHECKS, checks.unsupported_method], real=True)
        self._try(fits, examples // 3, ANSWER_CHECKS, real=False)
        if operation.body or list(operation.iter_parameters()):
            self._try(not_, examples, ANSWER_CHECKS, real=True)
            self._try(not_, examples // 3, [*ANSWER_CHECKS, checks.negative_data_rejection], real=False)

    def _try(self, cases: Any, examples: int, judged: list[Any], *, real: bool) -> None:
        @seed(self._run.seed)
        @settings(
            max_examples=max(1, examples),
            database=None,
            deadline=None,
            suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),  # its metaclass hides what it is
            phases=[Phase.generate, Phase.shrink],
        )
        @given(case=cases, kind=st.sampled_from(KINDS))
        def each(case: Any, kind: str) -> None:
            if real:
                self._name_what_is_there(case, kind)
            self._hurry(case)
            self.sent += 1
            answer = case.call(session=self._session, timeout=ANSWERED_S)
            case.validate_response(answer, checks=judged)

        try:
            each()
        except (FailureGroup, Failure) as fault:
            raise Breach(str(fault)[:3000]) from None
        except Unsatisfiable:
            pass  # nothing can be wrong with what takes any text
        except requests.RequestException as error:
            raise Breach(f"a request was not answered within {ANSWERED_S} s: {error!r} {error.__notes__}") from None

    def _hurry(self, case: Any) -> None:
        """A wait is for others to test."""
        if is_object(case.query) and "wait_ms" in case.query:
            case.query["wait_ms"] = 1

    def _name_what_is_there(self, case: Any, kind: str) -> None:
        named: dict[str, Any] = case.path_parameters or {}
        if not named:
            return
        deletes = case.method.upper() == "DELETE"
        sid, iid = self._make(kind) if deletes else self._existing(kind)
        for name in named.keys() & {"session_id", "id"}:
            named[name] = sid
        for name in named.keys() & {"interrupt_id", "requestId"}:
            named[name] = iid

    def _existing(self, kind: str) -> tuple[str, str]:
        """A session of this kind; a new one now and then, since requests change what they meet."""
        if kind not in self._names or self.sent % 7 == 0:
            self._names[kind] = self._make(kind)
        return self._names[kind]

    def _make(self, kind: str) -> tuple[str, str]:
        post, iid = self._post, f"int {uuid.uuid4().hex[:6]}"
        sid = post("/v1/sessions", {})["session_id"]
        asked: dict[str, Any] = {"interrupt_id": iid, "tool_name": "t", "tool_args": {"a": 1}}
        asks = {"type": "input.requested", "data": asked}
        if kind == "authorization":
            asks = {"type": "authorization.required", "data": {"interrupt_id": iid, "connection": "c"}}
        post(f"/v1/sessions/{sid}/events", [{"type": "turn.started"}, asks])
        call = f"/v1/sessions/{sid}/calls/{iid}"
        if kind in ("approved", "claimed", "done", "rejected"):
            post(f"{call}/decision", {"action": "reject" if kind == "rejected" else "approve"})
        if kind in ("claimed", "done"):
            post(f"{call}/claim", {"owner": "o"})
        if kind == "done":
            post(f"{call}/result", {"attempt": 1, "result": {"ok": True}})
        if kind == "ended":
            post(f"/v1/sessions/{sid}/events", {"type": "session.completed"})
        return sid, iid

    def _post(self, path: str, body: Any) -> Any:
        answer = self._session.post(self._server.url + path, json=body, timeout=ANSWERED_S)
        assert answer.ok, answer.text
        return answer.json()
