"""Action profiles and the selectors of their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from softswitch.errors import BadProgram
from softswitch.ir import Calculation
from softswitch.load.names import Names
from softswitch.load.reader import Reader
from softswitch.program import Action, ActionProfile, Table

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
    root: Reader,
    selectors: Mapping[str, Calculation | None],
    tables: Mapping[str, Table],
    actions: Sequence[Action],
) -> dict[str, ActionProfile]:
    """Read the action profiles; the actions of each are those of its tables."""
    result: dict[str, ActionProfile] = {}
    for r in _declarations(root):
        name = r.text("name")
        allowed: dict[str, int] = {}
        for table in tables.values():
            # The compiler gives each table an action of its own by the same name.
            for action, index in table.actions.items() if table.profile == name else ():
                other = allowed.setdefault(action, index)
                if actions[other].params != actions[index].params:
                    raise BadProgram(f"{r.path}: {action!r} is not the same in all tables")
        selector = selectors[name]
        result[name] = ActionProfile(
            name,
            len(result),
            min(r.integer("max_size", 0, 2**40), MAX_MEMBERS),
            allowed,
            None if selector is None else selector.name,
        )
    return result
