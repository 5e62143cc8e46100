"""From what the modes told to run.json."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.identify import Heat
from host_stack.placement import heat_based
from mininet_topos.links import Direction, LinkCounters
from mininet_topos.mode import ModeResult
from mininet_topos.options import RunOptions
from mininet_topos.outcome import scale_lines
from mininet_topos.plan import Plan
from mininet_topos.summary import (
    hot_coverage,
    link_time_bytes,
    mode_summary,
    packets_per_push,
    quality,
    summarize,
)
from tests.host_support import LAYOUT
from workloads.snapshots import Snapshots
from workloads.workload import Workload

DATASET = "synthetic:examples=400,features=60,nnz=4"
OPTIONS = RunOptions(dataset=DATASET, model="lr", workers=2, rounds=3, batch=16)


@pytest.fixture(scope="module")
def workload() -> Workload:
    """A small workload."""
    return Workload.open(DATASET, "lr", seed=1, workers=2, batch_size=16)


def phases(**elapsed_s: float) -> dict[str, Any]:
    """Phases half of which a process was on a processor, and a quarter of which it waited."""
    parts = {"elapsed_s": 1.0, "busy_s": 0.5, "waited_s": 0.25}
    return {
        part: {phase: share * seconds for phase, seconds in elapsed_s.items()}
        for part, share in parts.items()
    }


def push(hot: int, cold: int, packets: int, *, slow: float = 1.0) -> dict[str, Any]:
    """A worker's round."""
    return {
        "phases": phases(compute=0.5 * slow, push=0.25 * slow, commit=0.125, update=0.0625),
        "hot_keys": hot, "cold_keys": cold, "packets": packets, "loss": 0.5,
    }  # fmt: skip


def link(up: int, down: int) -> LinkCounters:
    """Bytes up and down; packets are a hundredth."""
    return LinkCounters(Direction(up // 100, up, 1), Direction(down // 100, down, 2))


def mode_result(folder: Path, workload: Workload, scale: int = 1) -> ModeResult:
    """A mode that ran three rounds with two workers."""
    folder.mkdir()
    for rounds in (3, 0):
        Snapshots(folder / "snapshots").save(rounds, np.zeros(workload.model.num_keys, np.float32))
    result = ModeResult(folder)
    for number in (2, 0, 1):
        result.rounds[number] = {
            "worker1": push(64, 36, 3),
            "worker2": push(33, 67, 2, slow=1.0 + number),
        }
    result.traffic = {
        "ps0": link(1000 * scale, 3000 * scale),
        "w0": link(1500, 700),
        "w1": link(1600, 800),
    }
    result.servers_done["server"] = {"model_sha256": "ab" * 32, "counters": {"cold_keys": 9}}
    result.workers_done = {
        "worker1": {"retransmissions": 2},
        "worker2": {"retransmissions": 3},
    }
    result.reasons = {"aggregated": 4}
    return result


def test_a_round_is_as_slow_as_its_slowest_worker(tmp_path: Path, workload: Workload) -> None:
    """Rounds in order, each phase's and the round's longest time, and their median."""
    entry = mode_summary(mode_result(tmp_path / "m", workload), workload, 32)
    assert entry["phases_s"]["compute"] == [0.5, 1.0, 1.5]
    assert entry["phases_s"]["commit"] == [0.125] * 3
    assert entry["round_s"] == [0.9375, 1.6875, 2.4375]
    assert entry["round_s_median"] == 1.6875
    assert entry["retransmissions"] == 5


def test_links_have_the_names_of_roles(tmp_path: Path, workload: Workload) -> None:
    """Hosts ps0, w0, w1 are called server, worker1, worker2."""
    entry = mode_summary(mode_result(tmp_path / "m", workload), workload, 32)
    assert entry["bytes"]["server"] == {"to_switch": 1000, "from_switch": 3000}
    assert entry["bytes"]["worker2"] == {"to_switch": 1600, "from_switch": 800}
    assert entry["packets"]["worker1"] == {"to_switch": 15, "from_switch": 7}
    assert entry["dropped_packets"]["server"] == {"to_switch": 1, "from_switch": 2}


def test_quality_is_measured_on_every_snapshot(tmp_path: Path, workload: Workload) -> None:
    """A model of zeros knows nothing: an AUC of a half."""
    measured = quality(mode_result(tmp_path / "m", workload), workload, [0.5, 0.25, 0.75, 9.0])
    assert measured["round"] == [0, 3]
    assert measured["elapsed_s"] == [0.0, 1.5]
    assert measured["metrics"]["auc"] == [0.5, 0.5]
    assert measured["metrics"]["log_loss"] == pytest.approx([np.log(2)] * 2, rel=1e-6)


def test_packets_per_push() -> None:
    """The mean, and the ratio to the least possible; pushes without hot keys do not count."""
    rounds = [[push(64, 0, 3), push(33, 0, 2)], [push(0, 5, 0), push(1, 0, 1)]]
    assert packets_per_push(rounds, 32) == {"mean": 2.0, "ratio": 6 / 5}
    assert packets_per_push([[push(0, 5, 0)]], 32) is None


def test_hot_coverage(tmp_path: Path, workload: Workload) -> None:
    """The share of all pushed gradients, 0 where nothing was pushed."""
    assert hot_coverage(mode_result(tmp_path / "m", workload)) == pytest.approx(97 / 200)
    assert hot_coverage(ModeResult(tmp_path)) == 0.0


def test_the_bound_counts_the_busiest_link_of_each_phase() -> None:
    """Gradients go up, parameters come down, one after the other."""
    server = {"to_switch": 40, "from_switch": 50}
    worker = {"to_switch": 30, "from_switch": 20}
    assert link_time_bytes({"bytes": {"server": server, "worker1": worker}}) == 90
    worker = {"to_switch": 70, "from_switch": 45}
    assert link_time_bytes({"bytes": {"server": server, "worker1": worker}}) == 115


def summary_of(modes: list[str], tmp_path: Path, workload: Workload) -> dict[str, Any]:
    """run.json of a run of some modes; server-only moves twice the bytes of its server."""
    keys = np.arange(40, dtype=np.uint64)
    plan = Plan(Heat(keys, np.linspace(1, 0.1, 40), 9), (heat_based(keys, LAYOUT),), 33)
    artifact = Artifact("libra", b"", "", LAYOUT, "p4c-bm2-ss 1.2.4", "00" * 32)
    results = {
        mode: mode_result(tmp_path / mode, workload, 2 if mode == "server-only" else 1)
        for mode in modes
    }
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return summarize(started, OPTIONS, workload, plan, artifact, results)


def test_a_whole_run(tmp_path: Path, workload: Workload) -> None:
    """Speed-up and bound compare libra with server-only; all of it is JSON."""
    run = summary_of(["libra", "server-only", "fallback"], tmp_path, workload)
    assert run["speedup"] == 1.0
    assert run["bound"] == pytest.approx(8000 / 4000)
    assert run["hot_coverage"] == pytest.approx(97 / 200)
    assert (run["hot_keys"], run["rows"], run["fraction_bits"]) == (40, 2, 33)
    assert run["started"] == "2026-01-02T03:04:05+00:00"
    assert run["versions"]["p4c"] == "p4c-bm2-ss 1.2.4"
    assert json.loads(json.dumps(run, allow_nan=False)) == run


@pytest.mark.parametrize("modes", [["libra"], ["server-only"], ["fallback", "server-only"]])
def test_runs_without_a_comparison(modes: list[str], tmp_path: Path, workload: Workload) -> None:
    """Without libra or its baseline there is no speed-up, and no invented one."""
    run = summary_of(modes, tmp_path, workload)
    assert run["speedup"] is None
    assert run["bound"] is None
    assert (run["hot_coverage"] is None) == (modes == ["server-only"])


def test_a_scale_that_does_not_fit_is_told() -> None:
    """One line for each mode that has advice to give."""
    scale = {"better_fraction_bits": 40, "advice": "take F = 40"}
    modes = {
        "libra": {"scale": scale},
        "fallback": {"scale": scale | {"better_fraction_bits": None}},
        "server-only": {"scale": None},
    }
    assert list(scale_lines({"modes": modes})) == ["libra: take F = 40"]
