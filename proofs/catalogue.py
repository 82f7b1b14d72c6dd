"""Every proof, in the order in which they are run and shown."""

from __future__ import annotations

from importlib import import_module

from proofs.proof import Proof

NAMES = (
    "histories",
    "model",
    "crash",
    "outage",
    "wire",
    "matrix",
    "cluster",
    "sentinel",
    "expiry",
    "pressure",
    "hostile",
    "projections",
    "doors",
)


def load(name: str) -> Proof:
    """The proof of this name: `PROOF` of the module, or the package, `proofs.<name>`."""
    module = import_module(f"proofs.{name}")
    found = getattr(module, "PROOF", None)
    assert isinstance(found, Proof), f"proofs/{name} defines no PROOF"
    assert found.name == name
    return found
