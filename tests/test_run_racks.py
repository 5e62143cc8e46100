"""`libra run` on a leaf-spine network: every leaf sums for its own workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_run_end_to_end import needs_emulation, run

pytestmark = [*needs_emulation, pytest.mark.timeout(900)]

ALL_HOT = ("--dataset", "synthetic:examples=4000,features=3000,nnz=30", "--hot", "3001")
"""Nothing goes over the cold path, so that links carry GRADs, sums and UPDATEs."""


def racks(out: Path, leaves: int, workers: int, *arguments: str) -> dict:
    """A run with so many racks; what was applied is what was pushed."""
    network = ("--topology", "leaf-spine", "--leaves", str(leaves), "--workers", str(workers))
    summary = run(out, *ALL_HOT, *network, "--audit", *arguments, timeout_s=800.0)
    assert summary["audit"]["conserved"]
    return summary


def test_two_racks_train_the_same_model(tmp_path: Path) -> None:
    """In all modes; and each leaf sums, while the spine only forwards."""
    modes = racks(tmp_path, 2, 3)["modes"]
    assert len({mode["model_sha256"] for mode in modes.values()}) == 1
    through = modes["libra"]
    assert through["switch_answers"]
    assert through["server_counters"].get("fallback_added", 0) == 0
    # Each row is drained at both leaves, and comes to the server once.
    assert through["counters"]["drained"] >= 2 * through["server_counters"]["drained_rows"] > 0
    assert modes["fallback"]["server_counters"]["fallback_added"] > 0
    assert set(through["trunk_bytes"]) == {
        f"{one}-{other}"
        for leaf in ("leaf1", "leaf2")
        for one, other in ((leaf, "spine1"), ("spine1", leaf))
    }


def test_bytes_at_the_server_do_not_grow_with_racks_or_workers(tmp_path: Path) -> None:
    """Its link carries each row once, whoever pushed it; without the switch it carries them all."""
    into = {
        (leaves, workers): racks(
            tmp_path / f"{leaves}-{workers}", leaves, workers, "--mode", "libra"
        )["modes"]["libra"]["bytes"]["server"]["from_switch"]
        for leaves, workers in ((1, 4), (2, 4), (4, 4), (2, 8))
    }
    # DONEs and ACKs of ps-lite grow with the workers, and little beside the sums.
    assert into[2, 4] == pytest.approx(into[1, 4], rel=0.05)
    assert into[4, 4] == pytest.approx(into[1, 4], rel=0.05)
    assert into[2, 8] < 1.5 * into[2, 4]


def test_racks_lose_packets_a_leaf_and_the_server(tmp_path: Path) -> None:
    """Also what is on its way from switch to switch; the model keeps its bits."""
    fault = "loss=0.05,dup=0.02,kill=leaf2@r1:drain,kill=server@r2"
    summary = racks(
        tmp_path, 3, 4, "--mode", "libra", "--mode", "server-only", "--fault", fault,
        "--checkpoint-every", "1",
    )  # fmt: skip
    modes = summary["modes"]
    assert modes["libra"]["model_sha256"] == modes["server-only"]["model_sha256"]
    assert [fault["target"] for fault in modes["libra"]["faults"]] == ["leaf2", "server"]
