"""Names that Layby makes up."""

from __future__ import annotations

import re

from eventstore.domain.values.field_types import SESSION_ID
from eventstore.domain.values.ids import derived_id, random_id


def test_a_made_name_is_a_prefix_and_26_characters():
    for name in (random_id("ses_"), derived_id("ses_", "tenant", "key")):
        assert re.fullmatch(r"ses_[0-9a-hjkmnp-tv-z]{26}", name)
        assert SESSION_ID.fullmatch(name)


def test_random_names_differ():
    assert len({random_id("") for _ in range(1_000)}) == 1_000


def test_every_bit_of_a_random_name_varies():
    names = [random_id("") for _ in range(400)]
    assert all(len({name[place] for name in names}) > 16 for place in range(26))


def test_the_same_sources_give_the_same_name_for_ever():
    assert derived_id("ses_", "a", "b") == "ses_b6s73bgvqjrx67a1jac1fx5hdy"


def test_other_sources_give_another_name():
    names = {derived_id("", *sources) for sources in (("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), ("",))}
    assert len(names) == 5
