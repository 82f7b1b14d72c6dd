"""All schemas, by name."""

from __future__ import annotations

from api.http.json_schema import Node
from api.openapi.examples import EXAMPLES
from api.openapi.schemas_calls import call_schemas
from api.openapi.schemas_events import event_schemas
from api.openapi.schemas_problems import problem_schemas
from api.openapi.schemas_service import service_schemas
from api.openapi.schemas_sessions import session_schemas
from api.openapi.schemas_snapshot import snapshot_schemas
from api.openapi.schemas_zhin import zhin_schemas


def schemas() -> dict[str, Node]:
    found = _schemas()
    return found | {name: {**found[name], "examples": [shown]} for name, shown in EXAMPLES.items()}


def _schemas() -> dict[str, Node]:
    return {
        **session_schemas(),
        **event_schemas(),
        **call_schemas(),
        **snapshot_schemas(),
        **zhin_schemas(),
        **service_schemas(),
        **problem_schemas(),
    }
