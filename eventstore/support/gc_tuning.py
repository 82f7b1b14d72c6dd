"""Imports of what stays until the process ends: there is no garbage in it to look for."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def lasting() -> Generator[None]:
    """Look for no garbage while the block imports, and never again in what there is by then. Looking would take a third
    as long again as the imports, and later, in the middle of requests, make a pause each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
