"""Which parts of a program run as loops over alike copies, and what is laid out for them.

`softswitch.codegen.rolls` makes a plan; an empty one leaves a program as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softswitch.codegen.columns import SeriesTable
from softswitch.ir import Expr, Node
from softswitch.program import Pipeline, Program

if TYPE_CHECKING:
    from softswitch.codegen.storage import Usage


@dataclass(frozen=True)
class Roll:
    """Nodes that repeat: `count` copies of `length` nodes from `start` on, then node `after`."""

    pipeline: str
    start: int
    length: int
    count: int
    after: int

    @property
    def stop(self) -> int:
        """Return the number after the last node."""
        return self.start + self.length * self.count

    @property
    def starts(self) -> range:
        """Return the first node of each copy."""
        return range(self.start, self.stop, self.length)

    def exit_of(self, copy: int) -> int:
        """Return the node that follows a copy."""
        return self.after if copy + 1 == self.count else self.starts[copy + 1]


@dataclass(frozen=True)
class Hint:
    """Cells that a roll is going to touch: one register per copy, and an index into each."""

    registers: tuple[str, ...]
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class Plan:
    """Rolls, and what must lie at constant distances for them.

    Attributes:
        rolls: by where they begin in their pipeline.
        arrays: fields that are elements of arrays.
        registers: register arrays, by name, that lie side by side in memory: cell by cell.
        tables: directly indexed tables, likewise: entry by entry.
        private: fields that only vector variables hold.
        hints: rolls at which it is known which cells a later one touches (see `hints`).
        usages: who mentions the fields of each roll.
    """

    rolls: tuple[Roll, ...] = ()
    arrays: SeriesTable = field(default_factory=SeriesTable)
    registers: SeriesTable = field(default_factory=SeriesTable)
    tables: SeriesTable = field(default_factory=SeriesTable)
    private: frozenset[tuple[int, int]] = frozenset()
    hints: tuple[tuple[Roll, Hint], ...] = ()
    usages: dict[Roll, Usage] = field(default_factory=dict)

    def single_nodes(self, program: Program) -> Iterator[Node]:
        """Yield the nodes of both pipelines that are in no roll."""
        for pipeline in (program.ingress, program.egress):
            for i, node in enumerate(pipeline.nodes):
                if self.roll_at(pipeline, i) is None:
                    yield node

    def roll_at(self, pipeline: Pipeline, node: int) -> Roll | None:
        """Return the roll that a node belongs to."""
        for roll in self.rolls:
            if roll.pipeline == pipeline.name and roll.start <= node < roll.stop:
                return roll
        return None
