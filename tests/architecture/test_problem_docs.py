"""docs/problems.md is what the service does."""

from __future__ import annotations

import re
from pathlib import Path

from api.http.problems import STATUS

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]}


def test_each_problem_has_a_section_and_nothing_else_has():
    assert SECTIONS.keys() == STATUS.keys()


def test_each_section_tells_the_status():
    told = {
        slug: int(match[1]) for slug, text in SECTIONS.items() if (match := re.search(r"\*\*Status\*\* (\d+)", text))
    }
    assert told == dict(STATUS)


def test_each_section_tells_what_to_do():
    assert [slug for slug, text in SECTIONS.items() if "**What to do.**" not in text] == []


def test_links_within_the_page_lead_somewhere():
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE.read_text("utf-8"))) <= SECTIONS.keys()
