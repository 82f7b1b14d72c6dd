"""The service's own answers."""

from __future__ import annotations

from api.openapi.build import Node, answer, any_object, text


def service_schemas() -> dict[str, Node]:
    return {
        "Health": answer({"status": text(examples=["ok"])}),
        "Readiness": answer(
            {"status": text(examples=["ready"])},
            {"projectors": any_object("How far each read model is behind, by name.")},
        ),
    }
