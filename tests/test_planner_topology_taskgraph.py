"""Task graphs from files, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import PlanError
from planner.topology.finder import AllReduceDemand
from planner.topology.taskgraph import Task, TaskGraph, Transfer, parse_task_graph, read_task_graph

FORWARD = {"id": 7, "kind": "forward", "runtime_ms": 1.5, "next": [9], "device": 70, "server": 0}
SENT = {"id": 9, "kind": "transfer", "runtime_ms": 3, "next": [5, 6], "size_bytes": 100}
SENT |= {"src": 0, "dst": 1}
BACKWARD = {"id": 5, "kind": "backward", "runtime_ms": 2, "device": 71, "server": 1}
REDUCED = {"id": 6, "kind": "allreduce", "runtime_ms": 0.5, "size_bytes": 8, "members": [0, 1]}


def document(*tasks: dict[str, Any]) -> dict[str, Any]:
    """A document of two servers."""
    return {"servers": 2, "gpus_per_server": 1, "tasks": list(tasks)}


def test_a_file_plain_and_compressed(tmp_path: Path) -> None:
    """Ids become indices, devices are numbered, the runtime of a transfer is not taken."""
    text = json.dumps(document(FORWARD, SENT, BACKWARD, REDUCED))
    plain, packed = tmp_path / "graph.json", tmp_path / "graph.json.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        graph = read_task_graph(path)
        assert graph.servers == 2
        assert graph.runtime_ms.tolist() == [1.5, 0, 2, 0.5]
        assert graph.device.tolist() == [0, -1, 1, -1]
        assert graph.messages == (Transfer(0, 1, 100.0), AllReduceDemand((0, 1), 8.0))
        assert graph.after(np.array([0, 1])).tolist() == [1, 2, 3]
        assert graph.demand.transfers.tolist() == [[0, 100], [0, 0]]
        assert graph.compute_ms() == 2


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((), "0 tasks"),
        ((FORWARD,), r"tasks\[0\].next\[0\] is 9; need the id of a task"),
        ((BACKWARD, BACKWARD), "twice"),
        (({**BACKWARD, "kind": "sideways"},), "one of forward, backward, transfer, allreduce"),
        (({**BACKWARD, "runtime_ms": -1},), "runtime_ms"),
        (({**SENT, "next": [], "dst": 2},), "server from 0 to 1"),
        (({**REDUCED, "members": [0, 0]},), "each once"),
        (({**REDUCED, "members": []},), "needs members"),
        (({**BACKWARD, "next": [5]},), "circle"),
        (({"id": 1, "kind": "forward", "runtime_ms": 1},), "device is missing"),
    ],
)
def test_what_is_refused(tasks: tuple[dict[str, Any], ...], message: str) -> None:
    """Each with the field that is wrong."""
    with pytest.raises(PlanError, match=message):
        parse_task_graph(document(*tasks))


@pytest.mark.parametrize("content", [b"{", b"[]", b"\x1f\x8b nothing", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_files_that_are_no_graph(tmp_path: Path, name: str, content: bytes) -> None:
    """Neither JSON nor a compressed file, or JSON of something else."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(PlanError):
        read_task_graph(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(PlanError, match="absent"):
        read_task_graph(tmp_path / "absent.json")


def test_order_of_tasks() -> None:
    """Each task comes behind those that it waits for."""
    graph = TaskGraph.build(
        1, [Task(1, 0, None, ()), Task(1, 0, None, (0,)), Task(1, 0, None, (1,))]
    )
    assert graph.in_order.tolist() == [2, 1, 0]
