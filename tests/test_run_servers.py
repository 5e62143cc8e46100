"""`libra run` with several servers: the model is that of one, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_run_end_to_end import needs_emulation, run

pytestmark = [*needs_emulation, pytest.mark.timeout(1800)]

SMALL = (
    *("--dataset", "synthetic:examples=3000,features=900,nnz=20", "--workers", "3"),
    *("--rounds", "6", "--audit"),
)


def servers(out: Path, count: int, *arguments: str) -> dict:
    """A small run over so many servers; what was applied is what was pushed."""
    summary = run(out, *SMALL, "--servers", str(count), *arguments, timeout_s=1500.0)
    assert summary["audit"]["conserved"]
    assert summary["model_sha256"] is not None
    return summary


def test_two_servers_under_loss_train_the_model_of_one(tmp_path: Path) -> None:
    """In all modes, with packets lost, doubled and out of order, and the switch killed."""
    fault = "loss=0.05,dup=0.02,reorder=0.02,kill=switch@r3"
    one = servers(tmp_path / "1", 1, "--mode", "libra")
    two = servers(tmp_path / "2", 2, "--fault", fault)
    assert two["model_sha256"] == one["model_sha256"]
    assert two["servers"] == 2
    through = two["modes"]["libra"]
    assert {"server", "server2", "worker1"} <= set(through["bytes"])
    assert through["counters"]["aggregated"] > 0
    assert two["modes"]["fallback"]["server_counters"]["fallback_added"] > 0


def test_two_servers_in_racks_lose_a_worker_and_a_server(tmp_path: Path) -> None:
    """Each server hangs at its own leaf; a server that keeps every commit comes back."""
    racks = ("--topology", "leaf-spine", "--leaves", "2")
    fault = "kill=worker2@r2:push,kill=server2@r4:update"
    summary = servers(
        tmp_path, 2, *racks, "--mode", "libra", "--mode", "server-only", "--fault", fault,
        "--checkpoint-every", "1",
    )  # fmt: skip
    assert [each["target"] for each in summary["faults"]] == ["worker2", "server2"]
