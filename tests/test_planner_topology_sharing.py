"""Several jobs on one cluster."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import PlanError
from planner.topology.fabrics import Switched
from planner.topology.fluid import simulate
from planner.topology.iteration import iteration_graph
from planner.topology.sharing import Cluster, merge
from planner.topology.strategy import data_parallel
from planner.topology.taskgraph import TaskGraph
from tests.planner_workloads import SMALL, workload


def graph(name: str, servers: int = 4) -> TaskGraph:
    """An iteration of a small model."""
    made = workload(name, servers)
    return iteration_graph(made, data_parallel(made))


def test_jobs_on_an_ideal_switch_do_not_meet() -> None:
    """Each takes as long as alone, wherever its servers are and whenever it starts."""
    graphs = [graph("bert"), graph("dlrm"), graph("bert")]
    merged = merge(graphs, seed=4)
    outcome = simulate(merged.graph, Switched(12, 1e10))
    alone = [simulate(each, Switched(4, 1e10)).iteration_ms for each in graphs]
    assert merged.took_ms(outcome.end_ms) == pytest.approx(np.array(alone))
    assert len(set(merged.start_ms)) == 3


def test_jobs_on_a_narrow_network_do() -> None:
    """No job is faster than on the ideal switch; figures are those of the times."""
    found = Cluster(None, 4, 5e8).share([graph("bert")] * 4, [1, 2])
    ideal, narrow = found["ideal"], found["oversubscribed"]
    assert (np.array(narrow["iteration_ms"]) >= 0.98 * np.array(ideal["iteration_ms"])).all()
    assert narrow["average_ms"] > ideal["average_ms"]
    assert len(narrow["iteration_ms"]) == 8
    assert narrow["slowdown"] > ideal["slowdown"] == pytest.approx(1, rel=0.01)
    assert narrow["average_ms"] <= narrow["p99_ms"] <= max(narrow["iteration_ms"])


def test_no_job() -> None:
    """There is nothing to share for; and a cluster that is too small."""
    with pytest.raises(PlanError, match="no job"):
        merge([], 1)
    with pytest.raises(PlanError, match="4 servers do not fit into a cluster of 3"):
        merge([graph("bert")], 1, 3)


def test_sharing_on_the_command_line(tmp_path: Path) -> None:
    """Jobs take the models in turn; too many servers are refused."""
    path = tmp_path / "found.json"
    command = ["share", "--model", SMALL["bert"], "--model", SMALL["ncf"], "--jobs", "3"]
    done = CliRunner().invoke(app, [*command, "--servers", "4", "--json", str(path)])
    assert done.exit_code == 0, done.exception
    document = json.loads(path.read_text())
    assert document["jobs"] == [SMALL["bert"], SMALL["ncf"], SMALL["bert"]]
    assert set(document["fabrics"]) == {"topoopt", "ideal", "fat-tree", "oversubscribed"}
    command += ["--servers", "4", "--cluster", "10", "--load", "50", "--load", "100"]
    done = CliRunner().invoke(app, [*command, "--json", str(path), "--draws", "2"])
    assert done.exit_code == 0, done.exception
    loads = json.loads(path.read_text())["loads"]
    assert [len(each["jobs"]) for each in loads] == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--jobs", "1000"],
        ["--cluster", "2000"],
        ["--load", "50"],
        ["--cluster", "32", "--load", "101"],
        ["--cluster", "15"],
        ["--draws", "0"],
    ],
)
def test_clusters_that_are_refused(wrong: list[str]) -> None:
    """Each with what is allowed."""
    done = CliRunner().invoke(app, ["share", "--model", SMALL["bert"], *wrong])
    assert isinstance(done.exception, PlanError)
