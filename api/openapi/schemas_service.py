"""The service's own answers."""

from __future__ import annotations

from api.http.json_schema import Node, answer, any_object, integer, many, ref, text, time


def service_schemas() -> dict[str, Node]:
    return {
        "Health": answer({"status": text(examples=["ok"])}),
        "Readiness": answer(
            {"status": text(examples=["ready"])},
            {
                "projectors": any_object("How far each read model is behind, by name."),
                "diverged": many(ref("Divergence"), "Partitions that have lost what was acknowledged."),
            },
        ),
        "Divergence": answer(
            {"partition": integer("Its number.", minimum=0), "since": time("When that was noticed.")},
        ),
    }
