"""The errors of docs/troubleshooting.md that programs meet are in the words of the sources."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
SYSTEM = [os.strerror(number) for number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)]


@cache
def known() -> str:
    """All of them, one a line."""
    return "\n".join(text.replace("\n", " ") for text in texts())


def texts() -> Iterator[str]:
    """All texts of `host_stack` and `workloads`, with … for each value."""
    for package in ("host_stack", "workloads"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                    yield "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield re.sub(r"%\w|%[\d.]+\w", "…", node.value)


def errors(heading: str) -> list[str]:
    """The first cells of a section's table that quote an error, as they stand there."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.+?)`(?: \(.*?\))? \| ", section, re.MULTILINE)


def as_pattern(error: str) -> str:
    """What a text of the sources has to match: numbers and what the system says are values."""
    for told in SYSTEM:
        error = error.replace(told, "…")
    parts = re.split(r"…|\b\d+\b", error)
    return ".+".join(re.escape(part) for part in parts)


@pytest.mark.parametrize("heading", ["ps-lite programs", "PyTorch programs"])
def test_errors_are_quoted_as_they_are(heading: str) -> None:
    """So that who searches the page for an error finds it."""
    given = errors(heading)
    assert len(given) > 10
    assert [error for error in given if not re.search(as_pattern(error), known())] == []
