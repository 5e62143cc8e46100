"""The command line of the planner: machine-readable figures, descriptions, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.cli import app
from host_stack.errors import BadInput
from planner import measuring
from planner.profile_log import write_log
from tests.planner_support import profile_of


def plan(*arguments: str | Path) -> str:
    """Run `libra plan` with these arguments; errors of the project are raised."""
    done = CliRunner().invoke(app, ["plan", *map(str, arguments)], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(name="log")
def make_log(tmp_path: Path) -> Path:
    """A log of three gradients."""
    path = tmp_path / "made.log"
    write_log(path, profile_of([6, 6, 6], [4_000_000, 6_000_000, 2_000_000]))
    return path


def figures(*arguments: str | Path, folder: Path) -> dict[str, Any]:
    """The figures that a what-if question writes."""
    path = folder / "figures.json"
    plan("whatif", *arguments, "--json", path)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_point_has_the_figures_that_programs_read(log: Path, tmp_path: Path):
    """scaling_factor, overhead_s, messages, first_flush_bytes."""
    found = figures("--profile", log, "--bandwidth", "10G", "--workers", "64", folder=tmp_path)
    assert found["schema"] == 1
    assert found["messages"] == 3
    assert found["first_flush_bytes"] == 4_000_000
    expected = found["iteration_s"] / (found["iteration_s"] + found["overhead_s"])
    assert found["scaling_factor"] == pytest.approx(expected)
    slower = figures(
        *("--profile", log, "--bandwidth", "10G", "--workers", "64", "--utilization", "0.32"),
        folder=tmp_path,
    )
    squeezed = figures(
        *("--profile", log, "--bandwidth", "10G", "--workers", "64", "--compression", "2"),
        folder=tmp_path,
    )
    assert slower["scaling_factor"] < found["scaling_factor"] < squeezed["scaling_factor"]


def test_a_point_is_told_in_words_and_drawn(log: Path, tmp_path: Path):
    """On the terminal, with every scheme."""
    output = plan(
        *("whatif", "--profile", log, "--bandwidth", "1G", "--workers", "8"),
        *("--out", tmp_path / "plots", "--scheme", "libra", "--coverage", "0.5"),
    )
    assert "libra (50% hot)" in output
    assert "The links are the bottleneck" in output
    assert (tmp_path / "plots" / "whatif.png").exists()


def test_several_values_make_a_sweep(tmp_path: Path):
    """All combinations, as columns."""
    found = figures(
        *("--model", "resnet50", "--bandwidth", "1G:100G:4", "--workers", "2,8,64"),
        *("--compression", "1,2", "--utilization", "0.5,1", "--out", tmp_path),
        folder=tmp_path,
    )
    points = found["points"]
    assert (found["schema"], found["target"], found["gradient_bytes"]) == (1, 0.95, 102_228_128)
    assert found["reached"] == sum(factor >= 0.95 for factor in points["scaling_factor"])
    assert {len(column) for column in points.values()} == {4 * 3 * 2 * 2}
    assert sorted(set(points["workers"])) == [2, 8, 64]
    assert (tmp_path / "sweep.png").exists()


def test_a_job_description_has_all_that_is_needed(log: Path, tmp_path: Path):
    """Workers, links, servers and the measured transport come from it; options go before it."""
    job = {
        "schema": 1,
        "model": "resnet50",
        "profile": log.name,
        "iteration_ms": 50,
        "cluster": {"servers": 4, "devices_per_server": 2, "parameter_servers": 3},
        "links": {"rate_gbps": 10, "latency_us": 5, "goodput_gbps": [[10, 4]]},
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    found = figures("--job", path, folder=tmp_path)
    assert (found["workers"], found["bandwidth_bps"]) == (8, 10e9)
    assert (found["iteration_s"], found["utilization"]) == (0.05, 0.4)
    assert found["messages"] == 3
    other = figures("--job", path, "--workers", "4", "--utilization", "1", folder=tmp_path)
    assert (other["workers"], other["utilization"]) == (4, 1.0)
    assert other["scaling_factor"] > found["scaling_factor"]
    swept = figures("--job", path, "--bandwidth", "1G,10G", folder=tmp_path)
    assert swept["points"]["utilization"] == pytest.approx([0.4, 0.4])
    del job["profile"]
    path.write_text(json.dumps(job))
    assert figures("--job", path, folder=tmp_path)["gradient_bytes"] == 4 * 25_557_032


def test_loopback_is_measured_and_used(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The figures have what was measured."""
    monkeypatch.setattr(measuring, "SECONDS", 0.3)
    found = figures(
        *("--profile", log, "--bandwidth", "100T", "--workers", "2", "--measure", "--flows", "2"),
        folder=tmp_path,
    )
    goodput = max(found["measured"]["points"][0]["goodput_bps"].values())
    assert found["utilization"] == pytest.approx(goodput / 1e14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bandwidth", "1G", "--workers", "2"], "give one of --job, --profile and --model"),
        (["--model", "bert", "--workers", "2"], "--bandwidth is missing"),
        (["--model", "bert", "--bandwidth", "1G"], "--workers is missing"),
        (["--model", "bert", "--bandwidth", "fast", "--workers", "2"], "rate 'fast'"),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "x"], "--workers 'x' is no number"),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "1.5"], "'1.5': need a whole"),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "1e9"], r"workers 1e\+09: allowed"),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--utilization", "1e-9"],
            "utilisation 1e-09: allowed",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--latency-us", "1e9"],
            "latency 1000 s: allowed",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--measure-on", "star"],
            "say how to --measure",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--flows", "3"],
            "say how to --measure",
        ),
        (
            ["--profile", "/absent", "--bandwidth", "1G", "--workers", "2", "--batch", "3"],
            "--batch and --flops are for layer tables",
        ),
        (
            [
                "--model",
                "bert",
                "--bandwidth",
                "1G",
                "--workers",
                "2",
                "--measure",
                "--utilization",
                "1",
            ],
            "leave out --utilization",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--target", "1.5"],
            "target 1.5",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2,4", "--target", "1.5"],
            "target 1.5",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--json", "/no/such/f"],
            "a folder that exists",
        ),
        (
            ["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--out", "/dev/null"],
            "/dev/null is not a folder",
        ),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--batch", "0"], "--batch 0"),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--servers", "0"], "servers 0"),
        (["--model", "bert", "--bandwidth", "1G", "--workers", "2", "--flops", "0"], "is 0"),
        (["--profile", "/absent", "--bandwidth", "1G", "--workers", "2"], "cannot be read"),
    ],
)
def test_refusals_say_what_to_do(arguments: list[str], message: str):
    """One line each."""
    with pytest.raises(BadInput, match=message):
        plan("whatif", *arguments)
