"""Words that the code does without, and where they still stand: `python -m tests.architecture.words [FOLDER…]`.

Names, comments and docstrings use the nouns and verbs of the trade. What users read (messages, help, documents) is
not looked at here.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, modules, text, tree

NAMES = {
    "anchor": "held key", "anchors": "held keys", "board": "changes", "crowd": "count", "door": "authenticator",
    "doubt": "invalidate", "edge": "boundary", "hear": "receive", "heard": "received", "hub": "notifier",
    "knock": "probe", "knocking": "probing", "lane": "queue", "lanes": "queues", "mend": "fix", "outlet": "writer",
    "stir": "notify", "stretch": "range", "stretches": "ranges", "suspect": "schedule_check", "tallies": "counters",
    "tell": "notify, report", "told": "reported", "topic": "followed", "upkeep": "projectors",
}  # fmt: skip
"""Parts of names, and what is written instead."""
PROSE = {
    "whoever": "the caller, the reader", "so many": "at most n", "of ours": "of Layby, of this process",
    "told": "notified, reported, given", "tells of": "reports", "hear": "receive", "hears": "receives",
    "heard": "received", "mend": "fix", "mends": "fixes", "mended": "fixed", "door": "authentication",
    "knock": "probe", "knocks": "probes", "stir": "notify", "stirs": "notifies", "doubt": "invalidate", "lane": "queue",
    "lanes": "queues", "judge": "validate, check", "judges": "validates, checks", "judged": "validated, checked",
    "crowd": "count", "gone quiet": "silent",
}  # fmt: skip
"""Words in comments and docstrings, and what is written instead."""
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PROSE = re.compile(r"\b(" + "|".join(PROSE) + r")\b", re.IGNORECASE)


def names(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, name and part of each name that is defined here with a word that is not used."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found = name
            case ast.arg(arg=name):
                found = name
            case ast.Name(id=name, ctx=ast.Store()):
                found = name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found = name
            case _:
                continue
        for part in _NAME_PART.findall(found):
            if part.lower() in NAMES:
                yield node.lineno, found, NAMES[part.lower()]


def prose(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, word and sentence of each comment and docstring that holds a word that is not used."""
    for line, said in (*_comments(path), *_docstrings(path)):
        for match in _PROSE.finditer(said):
            at = line + said.count("\n", 0, match.start())
            yield at, match[0], PROSE[match[0].lower()]


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string that stands as a statement, but for the help texts of commands."""
    for node in ast.walk(tree(path)):
        for child in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            match child:
                case ast.Expr(value=ast.Constant(value=str(text_))) if not _is_command(node):
                    yield child.lineno, text_
                case _:
                    pass


def _is_command(node: ast.AST) -> bool:
    return any(
        "command" in ast.unparse(each) or "group" in ast.unparse(each) for each in getattr(node, "decorator_list", [])
    )


if __name__ == "__main__":
    wanted = sys.argv[1:] or [""]
    found = 0
    for path in modules():
        if any(str(path).startswith(folder) for folder in wanted):
            for line, word, instead in sorted((*names(path), *prose(path))):
                found += 1
                sys.stdout.write(f"{(ROOT / path).relative_to(ROOT)}:{line}: {word} (instead: {instead})\n")
    sys.stdout.write(f"{found} found\n")
