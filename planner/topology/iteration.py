"""The task graph of a training iteration under a strategy.

Per operator and replica one forward and one backward task; per consumer and pair of servers one
transfer of activations and one of their gradients; per operator with several replicas an
AllReduce of its gradient, as soon as all have it.
"""

from __future__ import annotations

import numpy as np

from planner.topology.finder import AllReduceDemand
from planner.topology.maxmin import Floats, Ints
from planner.topology.operators import Workload
from planner.topology.strategy import Strategy, owners
from planner.topology.taskgraph import Message, TaskGraph, Transfer


def iteration_graph(workload: Workload, strategy: Strategy) -> TaskGraph:
    """Build the task graph; server i's devices are device i.

    Raises PlanError when the strategy is not one for the workload.
    """
    strategy.check(workload)
    return _Builder(workload, strategy).graph()


class _Builder:
    """Tasks as arrays, and the edges between them."""

    def __init__(self, workload: Workload, strategy: Strategy) -> None:
        self.workload = workload
        self.placements = strategy.placements
        self.owner = [owners(each, workload.servers) for each in strategy.placements]
        self.runtime: list[Floats] = []
        self.device: list[Ints] = []
        self.messages: list[Message] = []
        self.sent_by: list[Ints] = []
        self.edges: list[tuple[Ints, Ints]] = []
        self.tasks = 0

    def graph(self) -> TaskGraph:
        forward = [self._compute(i, backward=False) for i in range(len(self.owner))]
        backward = [self._compute(i, backward=True) for i in range(len(self.owner))]
        for index, operator in enumerate(self.workload.operators):
            mine = list(self.placements[index])
            self._edge(forward[index][mine], backward[index][mine])
            if operator.inputs:
                self._pass_on(index, forward, backward)
            if len(mine) > 1 and operator.parameter_bytes:
                size = operator.reduced_bytes(len(mine))
                reduced = self._send([AllReduceDemand(self.placements[index], size)])
                self._edge(backward[index][mine], np.repeat(reduced, len(mine)))
        return self._assemble()

    def _compute(self, index: int, *, backward: bool) -> Ints:
        """A task for each replica; returns the task of each server, −1 for those without."""
        servers = self.workload.servers
        operator = self.workload.operators[index]
        mine = np.array(self.placements[index])
        blocks = np.bincount(self.owner[index], minlength=servers)[mine]
        of_block = operator.backward_ms if backward else operator.forward_ms
        task = np.full(servers, -1)
        task[mine] = self._add(of_block * blocks, mine)
        return task

    def _pass_on(self, to: int, forward: list[Ints], backward: list[Ints]) -> None:
        """What an operator takes from its inputs, and the gradients that it hands back."""
        servers = self.workload.servers
        inputs = self.workload.operators[to].inputs
        size = np.zeros(servers * servers)
        pairs = {i: self.owner[i] * servers + self.owner[to] for i in inputs}
        for i in inputs:
            np.add.at(size, pairs[i], self.workload.operators[i].output_bytes)
        ends = np.divmod(np.flatnonzero(size), servers)
        apart = np.flatnonzero(ends[0] != ends[1])
        source, target = ends[0][apart], ends[1][apart]
        sizes = size[source * servers + target].tolist()
        there = zip(source.tolist(), target.tolist(), sizes, strict=True)
        back = zip(target.tolist(), source.tolist(), sizes, strict=True)
        sent = self._send([Transfer(*each) for each in there])
        returned = self._send([Transfer(*each) for each in back])
        self._edge(sent, forward[to][target])
        self._edge(backward[to][target], returned)
        message = np.full(servers * servers, -1)
        message[source * servers + target] = np.arange(len(source))
        for i in inputs:
            used = np.unique(pairs[i])
            a, b = np.divmod(used, servers)
            local = a == b
            self._edge(forward[i][a[local]], forward[to][b[local]])
            self._edge(backward[to][b[local]], backward[i][a[local]])
            travels = message[used[~local]]
            self._edge(forward[i][a[~local]], sent[travels])
            self._edge(returned[travels], backward[i][a[~local]])

    def _send(self, messages: list[Message]) -> Ints:
        tasks = self._add(np.zeros(len(messages)), np.full(len(messages), -1))
        self.messages += messages
        self.sent_by.append(tasks)
        return tasks

    def _add(self, runtime: Floats, device: Ints) -> Ints:
        tasks = np.arange(self.tasks, self.tasks + len(runtime))
        self.tasks += len(runtime)
        self.runtime.append(runtime)
        self.device.append(device)
        return tasks

    def _edge(self, before: Ints, after: Ints) -> None:
        self.edges.append((before, after))

    def _assemble(self) -> TaskGraph:
        before = np.concatenate([edge[0] for edge in self.edges])
        after = np.concatenate([edge[1] for edge in self.edges])
        order = np.argsort(before, kind="stable")
        counts = np.bincount(before, minlength=self.tasks)
        return TaskGraph(
            self.workload.servers,
            np.concatenate(self.runtime),
            np.concatenate(self.device),
            tuple(self.messages),
            np.concatenate([np.zeros(0, np.int64), *self.sent_by]),
            np.concatenate([[0], np.cumsum(counts)]),
            after[order],
        )
