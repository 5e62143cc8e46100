"""Every command of `libra` has JSON for programs, and its fields are written down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from controller.cli import app

DOCS = Path(__file__).parent.parent / "docs"
_ROW = re.compile(r"^\| (`[^|]+`) \| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\((\w[\w-]*\.md)?(?:#([\w-]+))?\)")


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command, as it is typed behind `libra`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def described() -> dict[str, str]:
    """What docs/cli.md says of the JSON of each command."""
    page = (DOCS / "cli.md").read_text()
    section = page[page.index("## Fields of their JSON") :]
    rows = _ROW.findall(section)
    return {name: text for names, text in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json(name: str) -> None:
    """An option of that name, and a row that says what it writes."""
    options = [option for parameter in COMMANDS[name].params for option in parameter.opts]
    assert "--json" in options
    assert name in described()


def test_no_other_commands_are_described() -> None:
    """What is gone is gone from the page too."""
    assert set(described()) == set(COMMANDS)


def test_links_to_fields_lead_somewhere() -> None:
    """A page and a heading that are there."""
    for text in described().values():
        for page, anchor in _LINK.findall(text):
            found = (DOCS / (page or "cli.md")).read_text()
            titles = re.findall(r"^#+ (.*)$", found, re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in titles}
            assert not anchor or anchor in anchors, (page, anchor)
