"""Choosing between two forms of an answer by `Accept`."""

from __future__ import annotations


def prefers(accept: str, wanted: str, usual: str) -> bool:
    """Whether the header asks for `wanted` by name, no less than for `usual`. A wildcard asks for the usual form."""
    weights = dict(map(_weight, accept.split(",")))
    return weights.get(wanted, 0.0) > 0 and weights[wanted] >= weights.get(usual, 0.0)


def _weight(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0
