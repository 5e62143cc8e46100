"""Several jobs on one cluster (the study's shared cluster): how they slow each other down.

On direct links every job has servers and links of its own, linked for it, so that jobs do not
meet. On a switched network the servers of a job are scattered and all jobs share the links. Jobs
start at random times within their own computing time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.errors import PlanError
from planner.topology.alternate import COARSE
from planner.topology.baselines import Setting, make_fabric
from planner.topology.fabrics import Fabric
from planner.topology.finder import AllReduceDemand
from planner.topology.fluid import prepare, simulate
from planner.topology.maxmin import Floats, Ints
from planner.topology.taskgraph import Message, TaskGraph, Transfer

SHARED = ("ideal", "fat-tree", "oversubscribed")
"""Networks that jobs share; beside them, `topoopt`."""


@dataclass(frozen=True)
class Merged:
    """The tasks of several jobs as one graph.

    Attributes:
        graph: of all; the first tasks are the jobs' starts.
        job: int64, (t,), of each task.
        start_ms: float64, (j,), when each job starts.

    """

    graph: TaskGraph
    job: Ints
    start_ms: Floats

    def took_ms(self, end_ms: Floats) -> Floats:
        """The iteration time of each job, float64, (j,), given the ends of all tasks."""
        last = np.zeros(len(self.start_ms))
        np.maximum.at(last, self.job, end_ms)
        return last - self.start_ms


def merge(graphs: Sequence[TaskGraph], seed: int, cluster: int | None = None) -> Merged:
    """Scatter jobs at random over a cluster of servers; None: as many as they all need.

    Raises PlanError when there is no job, or the cluster is too small.
    """
    if not graphs:
        raise PlanError("no job to share a cluster: give one at least")
    random = np.random.default_rng(seed)
    sizes = [graph.servers for graph in graphs]
    jobs, servers = len(graphs), cluster or sum(sizes)
    if servers < sum(sizes):
        raise PlanError(f"jobs of {sum(sizes)} servers do not fit into a cluster of {servers}")
    homes = np.split(random.permutation(servers)[: sum(sizes)], np.cumsum(sizes)[:-1])
    start_ms = np.array([random.random() * graph.compute_ms() for graph in graphs])
    first_device = np.concatenate([[0], np.cumsum(sizes)])
    before, after, runtime, device = [], [], [start_ms], [servers + np.arange(jobs)]
    messages: list[Message] = []
    sent_by, job = [], [np.arange(jobs)]
    tasks = jobs
    for number, graph in enumerate(graphs):
        count = len(graph.runtime_ms)
        roots = np.flatnonzero(graph.waits_for == 0)
        before += [np.full(len(roots), number)]
        before += [tasks + np.repeat(np.arange(count), np.diff(graph.first))]
        after += [tasks + roots, tasks + graph.successors]
        runtime.append(graph.runtime_ms)
        moved = graph.device + first_device[number]
        device.append(np.where(graph.device >= 0, moved, -1))
        messages += [_moved(message, homes[number]) for message in graph.messages]
        sent_by.append(tasks + graph.sent_by)
        job.append(np.full(count, number))
        tasks += count
    sources, targets = np.concatenate(before), np.concatenate(after)
    counts = np.bincount(sources, minlength=tasks)
    merged = TaskGraph(
        servers,
        np.concatenate(runtime),
        np.concatenate(device),
        tuple(messages),
        np.concatenate(sent_by),
        np.concatenate([[0], np.cumsum(counts)]),
        targets[np.argsort(sources, kind="stable")],
    )
    return Merged(merged, np.concatenate(job), start_ms)


def _moved(message: Message, homes: Ints) -> Message:
    if isinstance(message, Transfer):
        return replace(message, source=int(homes[message.source]), to=int(homes[message.to]))
    return AllReduceDemand(tuple(homes[list(message.members)].tolist()), message.size_bytes)


class Cluster:
    """Servers that jobs share, and networks between them.

    Args:
        servers: in all; None: as many as the jobs need.
        degree: d, interfaces of every server.
        rate_bps: B, of each of them.

    """

    def __init__(self, servers: int | None, degree: int, rate_bps: float) -> None:
        self._servers = servers
        self._degree = degree
        self._rate_bps = rate_bps
        self._alone: dict[tuple[str, int], float] = {}

    def share(self, graphs: Sequence[TaskGraph], seeds: Sequence[int]) -> dict[str, Any]:
        """Iteration times of jobs that share the cluster, by network: each, average and tail, ms.

        `slowdown` is the mean of a job's time to that of the same job alone at an ideal switch.

        Args:
            graphs: of the jobs' iterations; server i computes on device i.
            seeds: of places and start times; all jobs run once for each.

        """
        ideal = np.array([self.alone_ms("ideal", graph) for graph in graphs])
        direct = np.array([self.alone_ms("topoopt", graph) for graph in graphs])
        # On links of their own, jobs take the same wherever they are.
        found = {"topoopt": _figures(direct[None], ideal)}
        draws = [merge(graphs, seed, self._servers) for seed in seeds]
        for name in SHARED:
            times = [self._shared_ms(name, merged, COARSE * ideal.min()) for merged in draws]
            found[name] = _figures(np.array(times), ideal)
        return found

    def alone_ms(self, name: str, graph: TaskGraph) -> float:
        """What an iteration takes on a network that no other job uses."""
        key = (name, id(graph))
        if key not in self._alone:
            run = prepare(graph, self._fabric(name, graph))
            self._alone[key] = run.to_end(COARSE * run.least_ms).iteration_ms
        return self._alone[key]

    def _shared_ms(self, name: str, merged: Merged, resolution_ms: float) -> Floats:
        fabric = self._fabric(name, merged.graph)
        outcome = simulate(merged.graph, fabric, resolution_ms=resolution_ms)
        return merged.took_ms(outcome.end_ms)

    def _fabric(self, name: str, graph: TaskGraph) -> Fabric:
        return make_fabric(name, Setting(graph.demand, self._degree, self._rate_bps))


def _figures(times: Floats, ideal: Floats) -> dict[str, Any]:
    """Of float64 times, (draws, jobs), and of each job alone, (jobs,)."""
    return {
        "iteration_ms": times.ravel().tolist(),
        "average_ms": float(times.mean()),
        "p99_ms": float(np.percentile(times, 99)),
        "slowdown": float((times / ideal).mean()),
    }
