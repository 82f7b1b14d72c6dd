"""Sessions through the whole stack, whatever is asked and whatever dies meanwhile: always as the model says.

The same machine at a larger size, and over HTTP, is the proof `model`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from proofs.engines import Engine
from proofs.model.drivers import InProcess
from proofs.model.running import Size, examples


@pytest.mark.parametrize("number", [1, 2])
def test_the_service_is_always_as_the_model_says(tmp_path: Path, number: int) -> None:
    tally = Counter[str]()
    with Engine(tmp_path / "engine") as engine:
        driver = InProcess(engine)
        try:
            examples(driver, Size(examples=5, steps=25), number, tally)
        finally:
            driver.close()
    assert tally["events"] > 50
    assert tally["refusals"] > 10
