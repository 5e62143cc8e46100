"""A training iteration as tasks that wait for each other.

A task computes on a device, or communicates: an AllReduce among servers, or a transfer from one
to another. What a task's `successors` are may start when it has ended.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.finder import AllReduceDemand, Demand
from planner.topology.permutations import check_servers

TASKS_MAX = 2_000_000
FILE_BYTES_MAX = 1 << 29
_COMPUTES = ("forward", "backward")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Transfer:
    """Bytes from one server to another."""

    source: int
    to: int
    size_bytes: float


Message = AllReduceDemand | Transfer


@dataclass(frozen=True)
class Task:
    """One task, as graphs are built from.

    Attributes:
        runtime_ms: of a computation; of a message, how long it waits before it is sent.
        device: that computes, from 0; None for a message.
        message: what is sent; None for a computation.
        successors: indices of tasks that wait for this one.

    """

    runtime_ms: float
    device: int | None = None
    message: Message | None = None
    successors: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskGraph:
    """The tasks of an iteration, by index.

    Attributes:
        servers: that communicate, numbered from 0.
        runtime_ms: float64, (t,).
        device: int64, (t,), −1 for messages.
        messages: what is sent, in the order of `sent_by`.
        sent_by: int64, (m,), the task of each message.
        first, successors: int64, (t + 1,) and (e,): those of task i are
            `successors[first[i]:first[i + 1]]`.

    Raises:
        PlanError: the tasks wait for each other in a circle.

    """

    servers: int
    runtime_ms: Floats
    device: Ints
    messages: tuple[Message, ...]
    sent_by: Ints
    first: Ints
    successors: Ints

    def __post_init__(self) -> None:
        if len(self.in_order) < len(self.runtime_ms):
            raise PlanError("some tasks wait for each other in a circle: they would never start")

    @classmethod
    def build(cls, servers: int, tasks: Sequence[Task]) -> TaskGraph:
        """Make a graph of tasks; raises PlanError when the tasks make none."""
        check_servers(servers)
        sent_by = [index for index, task in enumerate(tasks) if task.message is not None]
        counts = [len(task.successors) for task in tasks]
        successors = [successor for task in tasks for successor in task.successors]
        return cls(
            servers,
            np.array([task.runtime_ms for task in tasks], dtype=np.float64),
            np.array([-1 if task.device is None else task.device for task in tasks], np.int64),
            tuple(task.message for task in tasks if task.message is not None),
            np.array(sent_by, dtype=np.int64),
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            np.array(successors, dtype=np.int64),
        )

    @property
    def waits_for(self) -> Ints:
        """How many tasks each waits for: int64, (t,)."""
        return np.bincount(self.successors, minlength=len(self.runtime_ms)).astype(np.int64)

    def after(self, tasks: Ints) -> Ints:
        """Successors of tasks, as often as they wait for one of them."""
        return self.successors[runs(self.first[tasks], self.first[tasks + 1])]

    @cached_property
    def in_order(self) -> Ints:
        """Tasks that can start at all, each behind those that it waits for, in waves."""
        waits = self.waits_for
        wave = np.flatnonzero(waits == 0)
        waves = [wave]
        while len(wave):
            following = self.after(wave)
            np.subtract.at(waits, following, 1)
            wave = np.unique(following)
            wave = wave[waits[wave] == 0]
            waves.append(wave)
        return np.concatenate(waves)

    @property
    def demand(self) -> Demand:
        """What the iteration sends, for `find_topology`."""
        matrix = np.zeros((self.servers, self.servers))
        for message in self.messages:
            if isinstance(message, Transfer):
                matrix[message.source, message.to] += message.size_bytes
        np.fill_diagonal(matrix, 0.0)
        rings = tuple(each for each in self.messages if isinstance(each, AllReduceDemand))
        return Demand(self.servers, rings, matrix)

    def compute_ms(self) -> float:
        """What the busiest device computes."""
        busy = self.device >= 0
        if not busy.any():
            return 0.0
        return float(np.bincount(self.device[busy], self.runtime_ms[busy]).max())


def runs(starts: Ints, stops: Ints) -> Ints:
    """The integers of [start, stop) of each pair, one after the other."""
    lengths = stops - starts
    ends = np.cumsum(lengths)
    offsets: Ints = np.repeat(starts - ends + lengths, lengths)
    return offsets + np.arange(len(offsets))


def read_task_graph(path: Path) -> TaskGraph:
    """Read a task graph, a JSON file, plain or compressed by gzip (docs/plan-topology.md).

    Raises PlanError naming what is wrong with it.
    """
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise PlanError(f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB when unpacked")
        document = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise PlanError(f"{path} is not a task graph: {error}") from error
    return parse_task_graph(document)


def parse_task_graph(document: Any) -> TaskGraph:
    """Check a decoded task graph; raises PlanError naming the field that is wrong."""
    root = JsonNode("taskgraph", document, PlanError)
    servers = root.get("servers").integer(1)
    check_servers(servers)
    nodes = root.get("tasks").elements()
    if not 0 < len(nodes) <= TASKS_MAX:
        raise PlanError(f"taskgraph.tasks: {len(nodes)} tasks; allowed are 1 to {TASKS_MAX}")
    index = {node.get("id").integer(): i for i, node in enumerate(nodes)}
    if len(index) < len(nodes):
        raise PlanError("taskgraph.tasks: an id is there twice; each task needs its own")
    devices: dict[int, int] = {}
    return TaskGraph.build(servers, [_task(node, index, devices, servers) for node in nodes])


def _task(node: JsonNode, index: dict[int, int], devices: dict[int, int], servers: int) -> Task:
    kind = node.get("kind").text()
    runtime_ms = node.get("runtime_ms").number()
    following = node.optional("next")
    successors = tuple(_known(each, index) for each in following.elements()) if following else ()
    if kind in _COMPUTES:
        name = node.get("device").integer()
        return Task(runtime_ms, devices.setdefault(name, len(devices)), None, successors)
    if kind == "transfer":
        source, to = _server(node.get("src"), servers), _server(node.get("dst"), servers)
        # Its runtime is what it takes on an idle link, which is for the simulator to find.
        return Task(0.0, None, Transfer(source, to, node.get("size_bytes").number()), successors)
    if kind == "allreduce":
        members = tuple(_server(each, servers) for each in node.get("members").elements())
        size_bytes = node.get("size_bytes").number()
        return Task(runtime_ms, None, AllReduceDemand(members, size_bytes), successors)
    raise node.get("kind").mismatch(f"one of {', '.join((*_COMPUTES, 'transfer', 'allreduce'))}")


def _known(node: JsonNode, index: dict[int, int]) -> int:
    number = node.integer()
    if number not in index:
        raise node.mismatch("the id of a task")
    return index[number]


def _server(node: JsonNode, servers: int) -> int:
    number = node.integer()
    if number >= servers:
        raise node.mismatch(f"a server from 0 to {servers - 1}")
    return number
