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
from planner.topology.finder import AllReduceDemand
from planner.topology.fluid import simulate
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


def merge(graphs: Sequence[TaskGraph], seed: int) -> Merged:
    """Scatter jobs over a cluster that is as large as all of them, at random.

    Raises PlanError when there is no job.
    """
    if not graphs:
        raise PlanError("no job to share a cluster: give one at least")
    random = np.random.default_rng(seed)
    sizes = [graph.servers for graph in graphs]
    homes = np.split(random.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
    start_ms = np.array([random.random() * graph.compute_ms() for graph in graphs])
    jobs, servers = len(graphs), sum(sizes)
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


def share(
    graphs: Sequence[TaskGraph], degree: int, rate_bps: float, seed: int = 1
) -> dict[str, dict[str, Any]]:
    """Iteration times of jobs that share a cluster, by network: each, average and tail, ms.

    Args:
        graphs: of the jobs' iterations; server i computes on device i.
        degree: d, interfaces of every server.
        rate_bps: B, of each of them.
        seed: of places and start times.

    """
    merged = merge(graphs, seed)
    found = {}
    for name in SHARED:
        network = make_fabric(name, Setting(merged.graph.demand, degree, rate_bps, seed))
        resolution_ms = COARSE * min(graph.compute_ms() for graph in graphs)
        outcome = simulate(merged.graph, network, resolution_ms=resolution_ms)
        found[name] = _figures(merged.took_ms(outcome.end_ms))
    alone = []
    for graph in graphs:
        network = make_fabric("topoopt", Setting(graph.demand, degree, rate_bps, seed))
        resolution_ms = COARSE * graph.compute_ms()
        alone.append(simulate(graph, network, resolution_ms=resolution_ms).iteration_ms)
    return {"topoopt": _figures(np.array(alone)), **found}


def _figures(times: Floats) -> dict[str, Any]:
    return {
        "iteration_ms": times.tolist(),
        "average_ms": float(times.mean()),
        "p99_ms": float(np.percentile(times, 99)),
    }
