"""The commands `libra plan topology` and `libra plan simulate`, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from host_stack.errors import BadInput
from planner.cli import app
from planner.errors import PlanError
from planner.prices import Prices
from planner.topology.finder import AllReduceDemand, Demand, FinderOptions, find_topology
from planner.topology.plan_file import PlanFile
from tests.planner_workloads import SMALL
from tests.topoopt_data import task_graph

GRAPH = {
    "servers": 2,
    "tasks": [
        {"id": 1, "kind": "backward", "runtime_ms": 4, "device": 0, "server": 0, "next": [2]},
        {"id": 2, "kind": "allreduce", "runtime_ms": 0, "members": [0, 1], "size_bytes": 1250000},
    ],
}


def libra(*arguments: str | Path) -> Result:
    """Run `libra plan …` in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def written(path: Path, *arguments: str | Path) -> dict[str, Any]:
    """What a command that succeeds writes with --json."""
    done = libra(*arguments, "--json", path)
    assert done.exit_code == 0, done.exception
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def test_a_topology_for_data_parallelism(tmp_path: Path) -> None:
    """Known values, links both ways once each, the file for a run, and the plots."""
    emitted, out = tmp_path / "topo.json", tmp_path / "plots"
    command = ("topology", "--servers", "16", "--degree", "4", "--emit", emitted, "--out", out)
    found = written(tmp_path / "found.json", *command)
    assert (found["strides"], found["diameter"]) == ([1, 5], 4)
    assert round(float(str(found["mean_hops"])), 3) == 2.133
    links = np.array(found["links"])
    assert links.shape == (32, 2)
    assert np.bincount(links.ravel()).tolist() == [4] * 16
    plan = PlanFile.read(emitted)
    assert plan.topology == find_topology(Demand.allreduce_only(16), FinderOptions(4))
    assert {path.name for path in out.iterdir()} == {"topology.png", "traffic.png"}


def test_a_plan_for_a_model(tmp_path: Path) -> None:
    """The search runs, its state is kept, and the same command again ends with the same plan."""
    state = tmp_path / "state.json"
    command = ("topology", "--model", SMALL["dlrm"], "--servers", "6", "--degree", "3")
    command += ("--bandwidth", "1G", "--budget", "10", "--rounds", "1", "--state", str(state))
    first = written(tmp_path / "first.json", *command)
    assert float(str(first["iteration_ms"])) >= float(str(first["compute_ms"]))
    assert state.exists()
    assert written(tmp_path / "again.json", *command) == first


def test_a_simulation(tmp_path: Path) -> None:
    """4 ms of computing, then 2 · 1/2 · 1.25 MB at 10 Gbit/s: 1 ms."""
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(GRAPH))
    command = ("simulate", "--taskgraph", graph, "--bandwidth", "10G", "--fabric", "ideal")
    found = written(tmp_path / "found.json", *command, "--fabric", "topoopt")
    assert found["iteration_ms"] == pytest.approx(5.0)
    assert set(dict(found["fabrics"])) == {"ideal", "topoopt"}  # type: ignore[call-overload]


def test_a_published_iteration(tmp_path: Path) -> None:
    """VGG16 on an ideal switch at 100 Gbit/s: 210.40 ms by the authors' simulator."""
    graph = task_graph("vgg_16servers_100g")
    command = ("simulate", "--taskgraph", graph, "--fabric", "ideal", "--bandwidth", "100G")
    found = written(tmp_path / "found.json", *command)
    assert found["iteration_ms"] == pytest.approx(210.40, rel=0.03)


def test_options_go_before_a_job_and_its_fields_before_defaults(tmp_path: Path) -> None:
    """Interfaces, rate and prices of a simulation are those of the description."""
    prices = {
        item: {"usd": 1000 if item == "patch_panel_port" else price.usd, "source": "an offer"}
        for item, price in Prices.load().items.items()
    }
    job = {
        "schema": 1,
        "model": "vgg16",
        "cluster": {"servers": 4, "devices_per_server": 2, "degree": 4},
        "links": {"rate_gbps": 25},
        "prices": prices,
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))

    def simulated(*options: str) -> dict[str, Any]:
        fabrics = ["--fabric", "ideal", "--fabric", "fat-tree"]
        return written(tmp_path / "found.json", "simulate", "--job", path, *fabrics, *options)

    found = simulated()
    assert (found["degree"], found["rate_bps"], found["servers"]) == (4, 25e9, 4)
    assert simulated("--degree", "2")["degree"] == 2
    faster = simulated("--flops", "1e14", "--batch", "1")
    assert faster["compute_ms"] < found["compute_ms"] / 10
    dear_panels = found["fabrics"]["fat-tree"]["iteration_ms"]
    del job["prices"]
    path.write_text(json.dumps(job))
    # Dear panels buy a faster fat-tree of equal cost.
    assert dear_panels < simulated()["fabrics"]["fat-tree"]["iteration_ms"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topology"], "nothing to plan for"),
        (["topology", "--model", "vgg16"], "--servers"),
        (["topology", "--servers", "0"], "1 to 4096"),
        (["topology", "--servers", "8", "--degree", "65"], "1 to 64 interfaces"),
        (["topology", "--servers", "8", "--rings", "none"], "both-ways, one-way"),
        (["topology", "--servers", "8", "--mode", "none"], "paper, artifact"),
        (["topology", "--servers", "8", "--json", "/"], "--json"),
        (["topology", "--servers", "8", "--out", "/dev/null"], "--out /dev/null"),
        (["topology", "--servers", "8", "--degree", "0"], "1 to 64 interfaces"),
        (["topology", "--model", "bert", "--servers", "8", "--state", "/no/f"], "--state /no/f"),
        (["topology", "--model", "bert", "--servers", "8", "--batch", "0"], "batch is 0"),
        (["topology", "--model", "bert", "--servers", "8", "--degree", "0"], "degree is 0"),
        (["topology", "--model", "bert", "--servers", "8", "--devices", "0"], "per_server is 0"),
        (["topology", "--taskgraph", "/absent"], "/absent"),
        (["topology", "--model", "bert", "--servers", "1"], "2 or more have a network"),
        (["topology", "--model", "bert", "--servers", "8", "--seed", "-1"], "seed -1: allowed"),
        (["compare", "--seed", "-1"], "seed -1: allowed"),
        (["compare", "--out", "/dev/null"], "--out /dev/null"),
        (["compare", "--model", "bert", "--servers", "1"], "2 or more have a network"),
        (["share", "--seed", "-1"], "seed -1: allowed"),
        (["simulate"], "--taskgraph"),
        (["simulate", "--model", "vgg16", "--servers", "4", "--fabric", "none"], "ideal"),
        (["simulate", "--model", "vgg16", "--servers", "4", "--degree", "0"], "degree is 0"),
    ],
)
def test_what_is_refused(arguments: list[str], message: str) -> None:
    """With what is allowed."""
    done = libra(*arguments)
    assert isinstance(done.exception, BadInput)
    assert message in str(done.exception)


def test_a_task_graph_on_no_interface(tmp_path: Path) -> None:
    """It is refused before it is simulated."""
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    done = libra("simulate", "--taskgraph", path, "--degree", "0")
    assert "degree 0: allowed are 1 to 64" in str(done.exception)


def test_an_error_on_the_command_line() -> None:
    """One line and exit code 2."""
    argv = [sys.executable, "-m", "controller.cli", "plan", "simulate"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: give one of --taskgraph, --job and --model\n"


def plan_file() -> PlanFile:
    """A plan of four servers with transfers."""
    matrix = np.zeros((4, 4))
    matrix[0, 2] = 1e5
    demand = Demand(4, (AllReduceDemand((0, 1, 2, 3), 1e6),), matrix)
    return PlanFile("test", find_topology(demand, FinderOptions(3)), 1e9, demand, 2)


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    """Everything that was written is read."""
    plan, path = plan_file(), tmp_path / "topo.json"
    plan.write(path)
    read = PlanFile.read(path)
    assert read.topology == plan.topology
    assert (read.name, read.rate_bps, read.paths) == ("test", 1e9, 2)
    assert read.demand.allreduces == plan.demand.allreduces
    assert read.demand.transfers.tolist() == plan.demand.transfers.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema"),
        ({"rate_bps": 0}, "rate_bps"),
        ({"name": "a\x1b[2J"}, "topo.name is .*printable"),
        ({"paths": 65}, "paths is 65; allowed are 1 to 64"),
        (
            {
                "topology": {
                    "servers": 4,
                    "degree": 1,
                    "groups": [
                        {"members": [0, 1, 2], "strides": [10**18 + 1], "one_way_strides": []}
                    ],
                    "matched_pairs": [],
                }
            },
            "strides below the 3 members",
        ),
        ({"transfers": [[0, 9, 1]]}, "servers from 0 to 3"),
        ({"transfers": [[0, 1]]}, "a server and bytes"),
        ({"allreduces": [{"members": [0, 0], "size_bytes": 1}]}, "each once"),
        ({"topology": {"servers": 4, "degree": 1, "groups": [], "matched_pairs": [[1]]}}, "pairs"),
    ],
)
def test_plans_that_are_none(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """What is wrong is named."""
    path = tmp_path / "topo.json"
    plan_file().write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PlanError, match=message):
        PlanFile.read(path)
