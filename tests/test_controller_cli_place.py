"""`libra place` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from controller.artifacts import Artifact, program_layout
from controller.cli import app
from controller.key_counts import KeyCounts
from controller.placing.blocks import blocks_of
from controller.placing.methods import METHODS
from host_stack.layout import Layout
from host_stack.placement import Placement
from workloads.trace import KeyTrace

DATASET = "synthetic:examples=3000,features=900,nnz=8"
RUNNER = CliRunner()


def libra(*arguments: str) -> str:
    """Run the command, which must work; what it prints."""
    done = RUNNER.invoke(app, ["place", *arguments])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def refused(*arguments: str) -> str:
    """Run the command, which must refuse; why."""
    done = RUNNER.invoke(app, ["place", *arguments])
    assert done.exit_code != 0
    return str(done.exception)


@pytest.mark.parametrize(("program", "lanes"), [("libra", 32), ("libra16", 16), ("tofino", 16)])
def test_lanes_are_those_of_the_switchs_program(program: str, lanes: int, tmp_path: Path) -> None:
    """Its description says how many there are, whatever target it was compiled for."""
    out = tmp_path / "placement.npz"
    libra("--dataset", DATASET, "--hot", "300", "--program", program, "--out", str(out))
    placement = Placement.load(out)
    assert placement.layout == program_layout(program)
    assert placement.layout.lanes == lanes
    libra("--job", str(out), "--program", program)
    if lanes != 32:
        assert "lanes is 32 here" in refused("--job", str(out))


def test_an_unknown_program() -> None:
    """The error lists those that there are."""
    why = refused("--dataset", DATASET, "--program", "../libra")
    assert "libra, libra16, libra64, libra_steps, tofino" in why


def test_all_methods_are_compared(tmp_path: Path) -> None:
    """A table, plots, and a file with every method's figures."""
    record = tmp_path / "compare.json"
    where = ("--json", str(record), "--out", str(tmp_path / "results"))
    shown = libra("--compare", "--dataset", DATASET, "--batch", "32", "--hot", "500", *where)
    report = json.loads(record.read_text())
    assert list(report["methods"]) == list(METHODS)
    for name, entry in report["methods"].items():
        assert name in shown
        assert entry["packets_ratio"] >= 1
        assert 0 < entry["rows_touched"] <= entry["rows"]
        assert 0 < entry["hot_bytes"] < entry["server_bytes"]
    methods = report["methods"]
    assert methods["sequential"]["conflicts"] > 0
    assert methods["two-cells"]["conflicts_removed"] >= 0.95
    assert methods["two-cells"]["packets_ratio"] < methods["heat"]["packets_ratio"]
    assert [curve["lanes"] for curve in report["sizes"]] == [32, 64]
    assert (report["hot"], report["batch"], report["workers"]) == (500, 32, 8)
    for plot in ("methods.png", "sizes.png"):
        assert (tmp_path / "results" / plot).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "results" / "compare.json").read_text()) == report


def test_embeddings_stay_together(tmp_path: Path) -> None:
    """The keys of a feature share a row, or two where one is full, by all but hash."""
    record = tmp_path / "compare.json"
    options = ("--model", "dlrm:dim=4", "--batch", "32", "--hot", "500", "--json", str(record))
    libra("--compare", "--dataset", DATASET, *options, "--out", str(tmp_path))
    report = json.loads(record.read_text())
    assert report["embedding_width"] == 4
    spread = {name: entry["rows_per_embedding"] for name, entry in report["methods"].items()}
    assert spread["hash"] > 1.5
    for name in ("sequential", "heat", "cooccurrence", "two-cells"):
        assert 1 <= spread[name] < 1.2


def test_a_data_set_is_placed(tmp_path: Path) -> None:
    """By the best method, and as many keys as pay, on the compiled program's layout."""
    path = tmp_path / "new" / "placement.npz"
    libra("--dataset", DATASET, "--out", str(path), "--json", str(tmp_path / "told.json"))
    placement = Placement.load(path)
    assert len(placement) > 0
    assert json.loads((tmp_path / "told.json").read_text()) == {
        "schema": 1,
        "placement": str(path),
        "method": "two-cells",
        "keys": len(placement),
        "lanes": 32,
        "rows": placement.used_rows,
        "paired_rows": len(placement.pairs),
    }
    assert placement.layout == Artifact.load().layout


def test_a_hot_set_file_is_placed(tmp_path: Path) -> None:
    """A hot set alone by heat; with a trace of pushes also by which keys meet."""
    counts = KeyCounts.of(np.array([3, 9, 0, 5, 1]), 20)
    counts.save(tmp_path / "hot.npz")
    pushes = [np.array([0, 1, 3], np.uint64)] * 12
    KeyTrace.of(pushes, 5).save(tmp_path / "trace.npz")
    hot, out = ("--hot-file", str(tmp_path / "hot.npz")), ("--out", str(tmp_path / "p.npz"))
    libra(*hot, "--method", "heat", *out)
    assert Placement.load(tmp_path / "p.npz").keys.tolist() == [1, 3, 0, 4]
    libra(*hot, "--trace", str(tmp_path / "trace.npz"), "--hot", "3", *out)
    assert sorted(Placement.load(tmp_path / "p.npz").keys.tolist()) == [0, 1, 3]
    assert "needs a data set or a trace" in refused(*hot, *out)
    KeyTrace.of(pushes, 6).save(tmp_path / "trace.npz")
    assert "a model of 6 keys" in refused(*hot, "--trace", str(tmp_path / "trace.npz"), *out)


def test_several_jobs_share_a_switch(tmp_path: Path) -> None:
    """Each has the rows that it may have at most, and a block of its own."""
    files = [tmp_path / f"{name}.npz" for name in "ab"]
    for path, rows in zip(files, (16, 64), strict=True):
        libra("--dataset", DATASET, "--hot", "300", "--rows", str(rows), "--out", str(path))
        placement = Placement.load(path)
        assert placement.used_rows <= rows
        assert placement.layout == Artifact.load().layout
    record = tmp_path / "jobs.json"
    shown = libra("--job", str(files[0]), "--job", str(files[1]), "--json", str(record))
    assert shown.split()[:8] == ["placement", "keys", "rows", "in", "use", "first", "row", "rows"]
    jobs = json.loads(record.read_text())["jobs"]
    used = [Placement.load(path).used_rows for path in files]
    told = [(job["row_base"], job["rows"]) for job in jobs]
    assert told == [(block.row_base, block.rows) for block in blocks_of(used, placement.layout)]
    other = Placement(*(np.zeros(0, kind) for kind in "Qll"), Layout(32, 64, 256, 1))
    other.save(files[0])
    assert "rows is 8192 here and 64 at" in refused("--job", str(files[0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --dataset or --hot-file"),
        (["--dataset", DATASET, "--hot-file", "hot.npz"], "--dataset does not go with --hot-file"),
        (["--hot-file", "nowhere.npz"], "is not a hot set"),
        (
            ["--hot-file", "hot.npz", "--workers", "0"],
            "--workers is 0; allowed: an integer from 1 to 128",
        ),
        (["--hot-file", "hot.npz", "--batch", "0"], "--batch does not go with --hot-file"),
        (["--dataset", DATASET, "--batch", "0"], "--batch is 0; allowed: an integer from 1 to"),
        (["--hot-file", "hot.npz", "--seed", "-1"], "--seed is -1; allowed: an integer from 0 to"),
        (["--dataset", DATASET, "--method", "best"], "known are hash, sequential, heat"),
        (["--dataset", DATASET, "--hot", "-1"], "it must be 0 or more"),
        (["--dataset", DATASET, "--hot", "99999"], "the model has 901"),
        (
            ["--dataset", DATASET, "--lanes", "64"],
            "with --dataset; it goes with --compare",
        ),
        (["--dataset", DATASET, "--hot", "262145"], "262145 hot keys do not fit"),
        (["--dataset", DATASET, "--trace", "trace.npz"], "it goes with --hot-file"),
        (["--compare", "--dataset", DATASET, "--trace", "t.npz"], "it goes with --hot-file"),
        (["--compare", "--dataset", DATASET, "--hot-file", "h.npz"], "not go with --compare"),
        (
            ["--compare", "--dataset", DATASET, "--batch", "301", "--workers", "4"],
            "the held-out part has 300",
        ),
        (["--compare"], "--compare needs a --dataset"),
        (["--compare", "--dataset", DATASET, "--method", "heat"], "--method does not go with"),
        (["--compare", "--dataset", DATASET, "--rows", "64"], "--rows does not go with --compare"),
        (["--compare", "--dataset", DATASET, "--out", "/dev/null/x"], "/dev/null is not a folder"),
        (["--dataset", DATASET, "--out", "/dev/null/x.npz"], "/dev/null is not a folder"),
        (["--dataset", DATASET, "--out", "/"], "/: it is a folder; name a file"),
        (["--dataset", DATASET, "--rows", "100"], "--rows 100: allowed are powers of two up to"),
        (["--dataset", DATASET, "--rows", "8", "--hot", "257"], "32 lanes of 8 rows hold 256"),
        (["--job", "a.npz", "--hot", "5"], "--hot does not go with --job"),
        (["--job", "a.npz", "--seed", "1"], "--seed does not go with --job"),
        (["--dataset", DATASET, "--rounds", "8"], "it goes with --compare"),
        (["--job", "a.npz", "--compare"], "--compare does not go with --job"),
        (["--job", "nowhere.npz"], "is not a placement file"),
        (["--compare", "--dataset", DATASET, "--rounds", "0"], "allowed are 1 to"),
        (["--compare", "--dataset", DATASET, "--lanes", "5"], "allowed are 8, 16, 32, 64"),
        (["--compare", "--dataset", DATASET, "--json", "/nowhere/x.json"], "a folder that exists"),
    ],
)
def test_refusals(arguments: list[str], message: str) -> None:
    """What cannot be done is said, with what can."""
    assert message in refused(*arguments)
