"""The costs in memory, their record, and the plots of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import switch
from bench.cli import show
from bench.conditions import conditions
from bench.job import SLOT, BenchJob
from bench.lookups import KINDS, table_costs
from bench.processing import BATCH, Grads, aggregation_cost, forwarding_cost, switch_in_memory
from bench.switch_plots import draw
from bench.throughput import Rates, Turns, ratio
from controller.artifacts import Artifact
from host_stack.wire import REASONS_PER_SLOT, Reason

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]


def test_costs_are_of_packets_that_were_added_up() -> None:
    """Each run sends new packets; a routed datagram costs too."""
    job = BenchJob(Artifact.load(), rows=64)
    with switch_in_memory(job) as dataplane:
        grads = Grads(job, lanes=4)
        cost = aggregation_cost(dataplane, grads, runs=3)
        assert (cost.runs, grads.next) == (3, 1 + 4 * BATCH)
        assert 0 < cost.lowest_ns <= cost.median_ns
        counters = dataplane.counters_read(
            "LibraIngress.reasons", SLOT * REASONS_PER_SLOT, REASONS_PER_SLOT
        )
        counted = {reason: packets for reason, (packets, _) in enumerate(counters) if packets}
        assert counted == {Reason.AGGREGATED: 4 * BATCH}
        assert forwarding_cost(dataplane, job, 100, 2).lowest_ns > 0


def test_every_table_answers_what_it_holds() -> None:
    """All kinds are filled and asked; the record says how many entries there were."""
    sizes = {kind.name: [3000 if kind.name == "lpm" else 50] for kind in KINDS}
    records = list(table_costs(sizes, runs=1))
    assert [record["kind"] for record in records] == list(sizes)
    assert [record["entries"] for record in records if record["kind"] != "lpm"] == [50] * 4
    assert all(record["median_ns"] > 0 for record in records)


def recorded() -> dict[str, Any]:
    """A record as `bench.switch.run` makes it, from recorded numbers."""
    rates = {
        "soft": Rates("soft", (380e3, 400e3), 0),
        "reflector": Rates("reflector", (400e3, 420e3), 0),
    }
    cost = {"median_ns": 150.0, "lowest_ns": 140.0, "runs": 3}
    return {
        "schema": switch.SCHEMA,
        "ratio_vs_bmv2": ratio(rates["soft"], rates.get("bmv2")),
        "ratio_vs_reflector": ratio(rates["soft"], rates["reflector"]),
        "packets_per_s": rates["soft"].median,
        "contenders": {name: each.record() for name, each in rates.items()},
        "conditions": {**conditions(), "lanes": 32},
        "by_ports": [{"ports": n, **rates["soft"].record()} for n in (1, 4)],
        "processing": cost,
        "by_lanes": [{"program": "libra", "lanes_used": n, **cost} for n in (8, 32)],
        "by_size": [{"bytes": n, **cost} for n in (64, 1500)],
        "by_table": [{"kind": "exact", "entries": n, "load_s": 0.1, **cost} for n in (10, 1000)],
        "load": [{"program": "libra", "lanes": 32, "first_s": 4.0, "cached_s": 0.1}],
    }


def test_plots_and_tables_of_a_record(tmp_path: Path) -> None:
    """What is missing, such as bmv2, is null in JSON and said in the table."""
    record = json.loads(json.dumps(recorded()))
    assert record["ratio_vs_bmv2"] is None
    assert record["ratio_vs_reflector"] == pytest.approx(0.9512, abs=1e-3)
    for path in draw(record, tmp_path / "out"):
        assert path.read_bytes().startswith(b"\x89PNG")
    console = Console(record=True, width=100)
    show(console, record)
    text = console.export_text()
    assert "against bmv2: not measured" in text
    assert "against the reflector: 0.95×" in text
    assert record["conditions"]["compiler"] in text


def test_the_run_measures_what_the_record_describes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same fields as the recorded one, ratios from the rates; interfaces are left out."""
    rates = {name: Rates(name, (2.0, 4.0), 0) for name in ("soft", "reflector", "bmv2")}
    monkeypatch.setattr(switch, "measure", lambda names, *_: {n: rates[n] for n in names})
    monkeypatch.setattr(switch, "bmv2_is_installed", lambda: True)
    monkeypatch.setattr(switch, "load_times", lambda artifact: recorded()["load"][0])
    monkeypatch.setattr(switch, "artifacts", lambda: [Artifact.load()])
    extent = switch.Extent(
        Turns(2, 0.1, 8), runs=1, lanes=(8,), ports=(1, 2), sizes=(64,), tables={"exact": [20]}
    )
    said: list[str] = []
    record = switch.run("libra", extent, tmp_path, said.append)
    assert record.keys() == recorded().keys()
    assert record["ratio_vs_bmv2"] == record["ratio_vs_reflector"] == 1.0
    assert record["conditions"]["packet_bytes"] == 254
    assert said
    json.dumps(record)
