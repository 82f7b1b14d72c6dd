"""Nothing in the tree is of one machine alone."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT, files

# Put together here, so that this file does not hold what it looks for.
HOMES = "|".join(("/" + name + "/") for name in ("root", "work", r"home/\w+", r"Users/\w+"))
HOSTS = "|".join(
    (
        "pypi" + r"\.org",
        "python" + r"hosted\.org",
        "npm" + r"js\.(org|com)",
        "arti" + "factory",
        "--" + "index-url",
        "--" + "extra-index-url",
        "--" + "trusted-host",
    )
)
FORBIDDEN = re.compile(f"(?<![\\w.-])(?:{HOMES})|{HOSTS}")
LARGEST = 512 * 1024


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    found = list[str]()
    for path in files():
        for number, line in enumerate((ROOT / path).read_text("utf-8", errors="replace").splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{path}:{number}: {match[0]}")
    assert found == []


def test_no_file_is_debris() -> None:
    left = [str(path) for path in files() if re.search(r"\.(orig|rej|bak|tmp|log|pyc|swp)$|~$|^\.DS_Store$", path.name)]
    assert left == []
    assert [str(path) for path in files() if (ROOT / path).stat().st_size > LARGEST] == []
