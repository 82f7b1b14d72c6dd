"""The names that others build on. Whoever adds or removes one does so here, and on purpose."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from eventstore.event_store import EventStore
from projections.read_models import ReadModels
from tests.architecture.tree import tree

COMMANDS = {
    "Absent",
    "Actor",
    "ClaimCall",
    "CompleteAuthorization",
    "CreateSession",
    "DecideCall",
    "ExpireDue",
    "NewEvent",
    "Publish",
    "RecordResult",
    "ReleaseCall",
    "SendMessage",
    "SettleCall",
}
DEFINED = {
    "eventstore.domain.commands": COMMANDS,
    "eventstore.domain.decider": {"decide"},
    "eventstore.domain.draft": {"Context", "Draft", "MissingRecords", "Policy"},
    "eventstore.event_store": {"EventStore", "open_store"},
    "eventstore.redis_keys": {
        "Keys",
        "PartitionKeys",
        "SessionKeys",
        "escape",
        "member",
        "parse_marker",
        "split_member",
    },
    "eventstore.settings": {"Durability", "Settings", "SettingsError", "load_settings"},
    "projections.read_models": {"ReadModels"},
    "api.app": {"build"},
}
EXPORTED = {
    "eventstore.embedded.engine": {"DataDirectoryInUse", "EmbeddedEngine", "EngineError", "engine_url", "is_private"},
    "eventstore.feed.tenant_feed": {"NOW", "Feed", "FeedItem", "Items", "Wanted"},
}
STORE = {
    *("check_room", "confirm", "delete", "execute", "expire", "submit", "under_way"),
    *("hold_idempotency_key", "release_idempotency_key"),
    *("call", "head", "page", "page_after", "session_keys"),
    *("follow", "follow_tenant", "listen", "stop_listening"),
    *("check_writable", "close", "start"),
}
READ_MODELS = {
    *("calls", "inbox", "newest_authorization", "session", "session_at", "sessions", "steps"),
    *("catch_up", "close", "lag", "start"),
}


def defined(module: str) -> set[str]:
    """The functions and classes that a module defines for others."""
    nodes = tree(Path(*module.split(".")).with_suffix(".py")).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in nodes if isinstance(node, kinds) and not node.name.startswith("_")}


def methods(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


@pytest.mark.parametrize("module", DEFINED)
def test_a_module_defines_these_names(module: str) -> None:
    assert defined(module) == DEFINED[module]


@pytest.mark.parametrize("module", EXPORTED)
def test_a_package_exports_these_names(module: str) -> None:
    found = import_module(module)
    assert set(found.__all__) == EXPORTED[module]
    assert all(hasattr(found, name) for name in EXPORTED[module])


def test_the_event_store_does_this() -> None:
    assert methods(EventStore) == STORE


def test_the_read_models_answer_this() -> None:
    assert methods(ReadModels) == READ_MODELS
