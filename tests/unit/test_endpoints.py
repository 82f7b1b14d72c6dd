"""The table of endpoints: what it declares is what is served, checked and described."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.requests import Request

from api.app import ENDPOINTS, build
from api.http.authentication import Authenticator
from api.http.body_budget import BodyBudget
from api.http.parameter_types import QueryParameter
from api.metrics.registry import Metrics
from api.openapi.document import document
from api.openapi.parameter_components import DECLARED
from api.requests.endpoint import Endpoint, Received
from api.requests.shared_parameters import LIMIT
from api.routes import health
from api.services import Services
from eventstore.domain import api_keys
from eventstore.domain.api_keys import ANY, SCOPES, AccessKey
from eventstore.domain.errors import InvalidRequest, Overloaded, leaves

ALL = [pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}") for endpoint in ENDPOINTS]
WITH_BODY = [pytest.param(endpoint, id=endpoint.path) for endpoint in ENDPOINTS if endpoint.body]
WITH_SCOPE = [pytest.param(e, id=f"{e.method} {e.path}") for e in ENDPOINTS if e.scope is not None]
QUERY = [pytest.param(one, id=one.key) for one in DECLARED if isinstance(one, QueryParameter)]
JUST_ONE = api_keys.key_text("0" * 12, "0" * 52)
ALL_OTHERS = api_keys.key_text("1" * 12, "1" * 52)


class Keys:
    """A keyring in which one key has just the scope that a route needs, and another has all but it."""

    open = False

    def __init__(self, scope: str) -> None:
        others = tuple(one for one in SCOPES if one != scope)
        scopes = {JUST_ONE: (scope,) if scope else ("act_as",), ALL_OTHERS: others}
        self._keys = {
            name: AccessKey(name, "somebody", "default", held, api_keys.digest(text), 0)
            for text, held in scopes.items()
            if (name := api_keys.id_of(text))
        }

    def find(self, key_id: str | None) -> AccessKey | None:
        return self._keys.get(key_id or "")


class Store:
    """What is asked for room; there is none until there is."""

    room = False

    def check_room(self) -> None:
        if not self.room:
            raise Overloaded("no room")


class House:
    """A server whose parts are only those that the checks need: there is no store behind it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.store = Store()
        services = SimpleNamespace(
            door=Authenticator(cast(Any, Keys(endpoint.scope or ANY))),
            store=self.store,
            settings=SimpleNamespace(host="127.0.0.1"),
            metrics=Metrics(),
            budget=BodyBudget(1 << 30),
        )
        self._app = build(cast(Services, services))
        self._endpoint = endpoint

    def ask(
        self, query: str = "", key: str = "", content: bytes = b"", method: str = "", **headers: str
    ) -> tuple[int, str, str]:
        """Status, code and where it is wrong, in either form of refusal."""
        if key:
            headers["Authorization"] = f"Bearer {key}"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        path = self._endpoint.path
        for name in self._endpoint.path_names:
            path = path.replace(f"{{{name}}}", "x")
        answer = asyncio.run(self._send(method or self._endpoint.method, path + query, content, sent))
        if answer.is_success:
            return answer.status_code, "", ""
        body = answer.json()
        code = body.get("error") or body["type"].rsplit("/", 1)[1].upper().replace("-", "_")
        wrong = next(iter(body.get("errors", ())), {})
        return answer.status_code, code, wrong.get("parameter") or wrong.get("header") or ""

    async def _send(self, method: str, target: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, target, content=content, headers=headers)


def test_every_endpoint_has_an_operation_and_every_operation_an_endpoint() -> None:
    told = {
        (method.upper(), path): operation["operationId"]
        for path, item in document(ENDPOINTS)["paths"].items()
        for method, operation in item.items()
    }
    assert told == {(endpoint.method, endpoint.path): endpoint.operation.id for endpoint in ENDPOINTS}
    assert len(told) == len(ENDPOINTS) == len(set(told.values()))


def test_the_document_is_made_of_the_table_and_nothing_else() -> None:
    assert list(document(health.ENDPOINTS)["paths"]) == [endpoint.path for endpoint in health.ENDPOINTS]


@pytest.mark.parametrize("endpoint", ALL)
def test_what_it_refuses_is_told_by_the_leaves_of_the_error_tree(endpoint: Endpoint) -> None:
    assert set(endpoint.all_problems) <= set(leaves())
    assert len(endpoint.problems) == len(set(endpoint.problems))


@pytest.mark.parametrize("endpoint", ALL)
def test_a_scope_is_one_that_keys_can_have_and_a_body_needs_one(endpoint: Endpoint) -> None:
    assert endpoint.scope in (None, ANY, *SCOPES)
    assert endpoint.body is None or endpoint.scope
    assert (endpoint.method == "POST") == (endpoint.body is not None)


def test_the_document_describes_what_is_declared_and_no_other_parameter() -> None:
    declared = {parameter for endpoint in ENDPOINTS for parameter in (*endpoint.query, *endpoint.headers)}
    unsaid = {parameter.name for parameter in set(DECLARED) - declared}
    assert declared <= set(DECLARED)
    assert unsaid == {"Idempotency-Key"}, "it comes with every body"


NAMES = {parameter.name for endpoint in ENDPOINTS for parameter in endpoint.query} | {"nonsense"}


@pytest.mark.parametrize("endpoint", WITH_SCOPE)
def test_a_declared_parameter_is_let_through_and_any_other_is_refused(endpoint: Endpoint) -> None:
    """Before the key is looked at: so a stranger hears 401 where the name is right."""
    house, declared = House(endpoint), {parameter.name for parameter in endpoint.query}
    told = {name: house.ask(f"?{name}=1") for name in NAMES}
    passed = {name for name in NAMES if told[name] == (401, "UNAUTHORIZED", "")}
    assert passed == (NAMES if endpoint.guard else declared)
    assert all(told[name] == (400, "INVALID_REQUEST", name) for name in NAMES - passed)


@pytest.mark.parametrize("endpoint", WITH_SCOPE)
def test_the_scope_of_the_table_is_the_one_that_is_needed(endpoint: Endpoint) -> None:
    house = House(endpoint)
    assert house.ask()[:2] == (401, "UNAUTHORIZED")
    if endpoint.scope:
        assert house.ask(key=ALL_OTHERS)[:2] == (403, "MISSING_SCOPE")
    assert house.ask(key=JUST_ONE)[0] not in (401, 403)


@pytest.mark.parametrize("endpoint", WITH_BODY)
def test_the_checks_of_a_post_come_in_one_order(endpoint: Endpoint) -> None:
    """Everything is wrong at first; what is refused is put right, and then the next thing is refused."""
    assert endpoint.body
    house = House(endpoint)
    wrong: dict[str, Any] = {
        "method": "PATCH",
        "query": "?nonsense=1",
        "key": "nonsense",
        "content": b"{" + b" " * endpoint.body.limit,
        "Idempotency_Key": "\t",
    }
    assert house.ask(**wrong)[:2] == (405, "METHOD_NOT_ALLOWED")
    del wrong["method"]
    if endpoint.guard is None:
        assert house.ask(**wrong) == (400, "INVALID_REQUEST", "nonsense")
    del wrong["query"]
    assert house.ask(**wrong)[:2] == (401, "UNAUTHORIZED")
    wrong["key"] = ALL_OTHERS
    assert house.ask(**wrong)[:2] == (403, "MISSING_SCOPE")
    wrong["key"] = JUST_ONE
    assert house.ask(**wrong) == (400, "INVALID_REQUEST", "" if endpoint.guard else "Idempotency-Key")
    wrong["Idempotency_Key"] = "k"
    assert house.ask(**wrong)[:2] == (503, "OVERLOADED")
    house.store.room = True
    assert house.ask(**wrong)[:2] == (413, "TOO_LARGE")
    wrong["content"] = b"{"
    assert house.ask(**wrong)[:2] == ((400, "INVALID_BODY") if endpoint.guard else (422, "INVALID_REQUEST"))


def test_a_handler_reads_no_parameter_that_its_endpoint_does_not_declare() -> None:
    scope: dict[str, Any] = {"type": "http", "query_string": b"limit=7"}
    with_limit, without = (next(e for e in ENDPOINTS if e.operation.id == name) for name in ("listSteps", "getSession"))
    assert Received(with_limit, Request(scope)).query(LIMIT) == 7
    with pytest.raises(LookupError, match="limit"):
        Received(without, Request(scope)).query(LIMIT)


def test_nobody_asks_on_a_route_without_a_scope() -> None:
    (endpoint,) = (endpoint for endpoint in ENDPOINTS if endpoint.path == "/healthz")
    with pytest.raises(LookupError, match="scope"):
        _ = Received(endpoint, Request({"type": "http"})).principal


@pytest.mark.parametrize("parameter", QUERY)
def test_what_the_document_says_of_a_parameter_is_enforced(parameter: QueryParameter[object]) -> None:
    schema = parameter.schema
    if "default" in schema:
        assert parameter.read(None) == parameter.read(str(schema["default"]))
    if schema.get("type") == "boolean":
        assert (parameter.read("true"), parameter.read("false")) == (True, False)
    for word in _words(schema):
        parameter.read(word)
    for bound, beyond in (("minimum", -1), ("maximum", 1)):
        if bound in schema:
            parameter.read(str(schema[bound]))
            with pytest.raises(InvalidRequest):
                parameter.read(str(schema[bound] + beyond))
    if schema.get("type") != "string" or _words(schema) or schema.keys() & {"pattern", "format"}:
        with pytest.raises(InvalidRequest):
            parameter.read("\N{SNOWMAN}")


def _words(schema: dict[str, Any]) -> list[str]:
    """The words of a parameter; those of a schema that the document has elsewhere are looked up."""
    if "$ref" in schema:
        return document(ENDPOINTS)["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["enum"]
    return schema.get("enum", [])
