"""Comparisons of networks over models, degrees and rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import PlanError
from planner.topology.cost import Prices
from planner.topology.sweep import BASELINES, Cell, SweepOptions, compare, headline
from tests.planner_workloads import SMALL


def test_one_comparison() -> None:
    """No network is faster than computing; the gain is the ratio of two times."""
    options = SweepOptions(models={SMALL["dlrm"]: 8}, servers=8, devices=2, budget=5)
    row = compare(Cell(SMALL["dlrm"], 4, 1e9), options)
    took = row["iteration_ms"]
    assert set(took) == {"topoopt", *BASELINES}
    assert min(took.values()) >= row["compute_ms"]
    assert row["speedup"] == took["fat-tree"] / took["topoopt"]
    assert row["usd_per_server"]["fat-tree"] == row["usd_per_server"]["topoopt"]


def test_the_headline() -> None:
    """The largest gain with where it was, the mean, and the ratio of rates that bounds it."""
    rows = [
        {"model": "m", "degree": 4, "rate_bps": 1e10, "speedup": gain, "ideal_cost_ratio": 2.0}
        | {"fat_tree_bps": 2e10}
        for gain in (1.0, 1.5)
    ]
    found = headline(rows)
    assert (found["speedup_max"], found["speedup_mean"]) == (1.5, 1.25)
    assert found["largest_possible"] == 2.0
    assert found["ideal_cost_ratio_mean"] == 2.0


def test_a_comparison_on_the_command_line(tmp_path: Path) -> None:
    """Rows, assumptions with the sources of prices, and both plots."""
    found, out = tmp_path / "found.json", tmp_path / "plots"
    command = ["compare", "--model", SMALL["ncf"], "--degree", "4"]
    command += ["--bandwidth", "1G", "--bandwidth", "10G", "--servers", "6", "--devices", "1"]
    command += ["--budget", "2", "--processes", "1", "--json", str(found), "--out", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.exception
    document = json.loads(found.read_text())
    assert [row["rate_bps"] for row in document["rows"]] == [1e9, 1e10]
    assert any("not verified" in line for line in document["assumptions"])
    assert {path.name for path in out.iterdir()} == {"times.png", "costs.png"}


@pytest.mark.parametrize(
    "wrong",
    [["--fabric", "guess"], ["--model", "guess"], ["--bandwidth", "0"], ["--processes", "0"]],
)
def test_what_is_refused(wrong: list[str]) -> None:
    """Each with what is allowed."""
    done = CliRunner().invoke(app, ["compare", "--servers", "4", *wrong])
    assert isinstance(done.exception, PlanError)


def test_every_price_has_a_source() -> None:
    """Of the list that comes with the planner."""
    assert all(price.source for price in Prices.load().items.values())
