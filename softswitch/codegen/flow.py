"""Control flow within one copy of a roll: who dominates whom, and which nodes run together.

Nodes are numbered from 0 in topological order; `length` stands for the end of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Flow:
    """Successors of each node of a copy, all later ones or `length`."""

    successors: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        """Return the number of nodes."""
        return len(self.successors)

    @cached_property
    def edges_into(self) -> tuple[int, ...]:
        """How many edges lead to each node, the end too."""
        counts = [0] * (self.length + 1)
        for targets in self.successors:
            for target in targets:
                counts[target] += 1
        return tuple(counts)

    @cached_property
    def dominators(self) -> tuple[frozenset[int], ...]:
        """Nodes that every way to a node comes through, with itself."""
        before: list[list[int]] = [[] for _ in range(self.length + 1)]
        for node, targets in enumerate(self.successors):
            for target in targets:
                before[target].append(node)
        found: list[frozenset[int]] = []
        for node in range(self.length):
            common = _common([found[p] for p in before[node]])
            found.append(common | {node})
        return tuple(found)

    @cached_property
    def postdominators(self) -> tuple[frozenset[int], ...]:
        """Nodes that every way from a node comes through, with itself."""
        found: dict[int, frozenset[int]] = {self.length: frozenset([self.length])}
        for node in reversed(range(self.length)):
            found[node] = _common([found[t] for t in self.successors[node]]) | {node}
        return tuple(found[node] for node in range(self.length))

    def same_as(self, node: int) -> int:
        """Return the first node that runs exactly when `node` does."""
        for other in sorted(self.dominators[node]):
            if node in self.postdominators[other]:
                return other
        return node

    def region(self, node: int) -> range | None:
        """Return the nodes that run only if `node` does, None if others stand between them."""
        inside = [n for n in range(self.length) if node in self.dominators[n]]
        return range(node, node + len(inside)) if inside[-1] - node + 1 == len(inside) else None


def _common(sets: Sequence[frozenset[int]]) -> frozenset[int]:
    return frozenset.intersection(*sets) if sets else frozenset()
