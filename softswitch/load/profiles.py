"""Action profiles and the selectors of their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from softswitch.errors import BadProgram
from softswitch.ir import Calculation
from softswitch.load.names import Names
from softswitch.load.reader import Reader
from softswitch.program import ActionProfile, Table

MAX_MEMBERS = 1 << 24

ReadCalculation = Callable[[Reader, Names, str], Calculation]


def _declarations(root: Reader) -> Iterator[Reader]:
    for pipeline in root.objects("pipelines"):
        yield from pipeline.objects("action_profiles", optional=True)


def read_selectors(
    root: Reader, names: Names, read_calculation: ReadCalculation
) -> dict[str, Calculation | None]:
    """Return the calculation that each action profile picks members by, None without a selector."""
    result: dict[str, Calculation | None] = {}
    for r in _declarations(root):
        name = r.text("name")
        if name in result:
            raise BadProgram(f"{r.path}: action profile {name!r} is declared twice")
        result[name] = None
        if r.has("selector"):
            own = f"{name}.$selector"
            if own in names.calculations:
                raise BadProgram(f"{r.path}: the name {own!r} is taken")
            result[name] = read_calculation(r.child("selector"), names, own)
            names.calculations.add(own)
    return result


def read_profiles(
    root: Reader, selectors: Mapping[str, Calculation | None], tables: Mapping[str, Table]
) -> dict[str, ActionProfile]:
    """Read the action profiles; the actions of each are those of its tables."""
    result: dict[str, ActionProfile] = {}
    for r in _declarations(root):
        name = r.text("name")
        actions: dict[str, int] = {}
        for table in tables.values():
            if table.profile == name:
                actions.update(table.actions)
        selector = selectors[name]
        result[name] = ActionProfile(
            name,
            len(result),
            min(r.integer("max_size", 0, 2**40), MAX_MEMBERS),
            actions,
            None if selector is None else selector.name,
        )
    return result
