"""Where a fold may end."""

from __future__ import annotations

import pytest

from eventstore.redis_keys import Keys
from projections.fold.session_fold import Target
from projections.redis_keys import Layout

KEYS = Keys(4).session("acme", "s1")


@pytest.mark.parametrize(
    ("seq", "most", "end"),
    [
        (0, 3, 3),  # before the first commit that is known nothing is: anywhere will do
        (0, 6, 4),  # within a commit: before it
        (4, 2, 10),  # at its beginning: all of it
        (6, 2, 10),  # within it already, as an older release left it
        (4, 6, 10),
        (4, 7, 11),
        (10, 1, 11),
        (10, 5, 11),
        (11, 100, 20),
        (20, 100, 20),
        (25, 100, 25),  # further than the goal
    ],
)
def test_a_fold_ends_with_a_commit(seq: int, most: int, end: int):
    target = Target(KEYS, Layout(KEYS.partition, "0"), 20, [(5, 10), (11, 11), (12, 20)])
    assert target.stop(seq, most) == end
