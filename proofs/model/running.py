"""Runs the machine as often as wanted, as its seed says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import get_state_machine_test

from proofs.model.drivers import Driver
from proofs.model.machine import Machine
from proofs.proof import Breach


@dataclass(frozen=True)
class Size:
    examples: int
    steps: int
    restarts: int = 1
    """In one example, at most."""
    mostly: str = ""
    """Actions, by commas, that shall happen ten times as often."""


def examples(driver: Driver, size: Size, number: int, tally: Counter[str], *, shrink: bool = True) -> None:
    """So many examples, the same for the same number. Raises `Breach`, with the smallest example where it shrinks."""
    about = {
        "driver": driver,
        "restarts_at_most": size.restarts,
        "tally": tally,
        "mostly": frozenset(size.mostly.split(",")),
    }
    machine = type("Machine", (Machine,), about)
    test = get_state_machine_test(
        machine,
        settings=settings(
            max_examples=size.examples,
            stateful_step_count=size.steps,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),  # its metaclass hides what it is
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        ),
    )
    try:
        seed(number)(test)()
    except Flaky as error:
        found = [one for one in getattr(error, "exceptions", ()) if isinstance(one, Breach)]
        raise found[0] if found else Breach(f"it does not fail in the same way twice: {error}") from error
