"""The benchmark of placing: its contenders agree, and it records what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from bench.cli import app
from bench.placement import LAYOUT, Effort, plain_pack, plain_place, run, wide_pack
from host_stack.placement import heat_based


def test_contenders_do_the_same() -> None:
    """What is compared has the same result."""
    placement = heat_based(np.arange(5000, dtype=np.uint64), LAYOUT)
    push = np.flatnonzero(np.random.default_rng(1).random(5000) < 0.3)
    lanes = placement.lanes[push]
    packets = placement.pack(push).packets.tolist()
    assert plain_pack(lanes.tolist()) == packets
    assert wide_pack(lanes).tolist() == packets
    cells = zip(placement.lanes.tolist(), placement.rows.tolist(), strict=True)
    assert list(plain_place(placement.keys).values()) == list(cells)


def test_the_record() -> None:
    """Every step at every size, with rates and ratios."""
    said: list[str] = []
    record = run(Effort((320, 640), 2), said.append)
    assert len(said) == len(record["steps"]) == 2 * 5
    for row in record["steps"]:
        assert row["keys_per_s"]["libra"] > 0
        assert set(row["ratios"]) == set(row["keys_per_s"]) - {"libra"}
    assert record["conditions"]["cores"] > 0
    assert json.loads(json.dumps(record)) == record


def test_the_command(tmp_path: Path) -> None:
    """It writes what it measured; a folder that is not there is refused before anything runs."""
    path = tmp_path / "placement.json"
    assert CliRunner().invoke(app, ["placement", "--quick", "--json", str(path)]).exit_code == 0
    assert {row["hot"] for row in json.loads(path.read_text())["steps"]} == {1000, 10000}
    refused = CliRunner().invoke(app, ["placement", "--json", str(tmp_path / "no" / "x.json")])
    assert "there is no folder" in str(refused.exception)
