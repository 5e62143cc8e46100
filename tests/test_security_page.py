"""The threat model of docs/security.md: each threat has tests, and these are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "security.md"
_TEST = re.compile(r"`(?:(test_\w+\.py))?::(test_\w+)`")


def threats() -> dict[str, list[tuple[str, str]]]:
    """The (file, test) pairs of each threat."""
    text = PAGE.read_text()
    table = text[text.index("| threat |") : text.index("## What is not defended")]
    found = {}
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            continue
        threat, _, tests = (cell.strip() for cell in line.strip("|").split("|"))
        pairs, file = [], ""
        for named, test in _TEST.findall(tests):
            file = named or file
            pairs.append((file, test))
        found[threat] = pairs
    return found


def test_every_threat_has_tests() -> None:
    """A line without one would be a promise without a proof."""
    found = threats()
    assert len(found) > 20
    assert [threat for threat, tests in found.items() if not tests] == []


def test_the_tests_are_there() -> None:
    """In the file that is named, under that name."""
    named = {pair for tests in threats().values() for pair in tests}
    missing = [
        f"{file}::{test}"
        for file, test in sorted(named)
        if not re.search(rf"^def {test}\(", _text(file), re.MULTILINE)
    ]
    assert missing == []


def _text(file: str) -> str:
    path = TESTS / file
    return path.read_text() if path.is_file() else ""
