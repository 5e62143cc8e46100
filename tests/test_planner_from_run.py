"""Prediction beside measurement: what is said of a run, and which runs are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from host_stack.errors import BadInput
from mininet_topos.run_record import parse_run
from planner.errors import PlanError
from planner.from_run import ModePrediction, as_fields, in_words, load_run, predict_run
from planner.round_model import LinkRates
from tests.planner_rounds import LINKS, ROUNDS, WORKERS, mode_of, run_of, traffic
from tests.test_planner_cli import plan


def test_a_run_is_predicted_beside_its_measurement(tmp_path: Path):
    """As JSON, in words, and for links of other rates."""
    server_only = traffic(
        own=40_000.0, push=160_000.0, requests=0.0, drained=0.0, update=0.0, cold_down=20_000.0
    )
    run = run_of(libra=mode_of(traffic()), server_only=mode_of(server_only, packets=0.0))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run))
    predictions = predict_run(load_run(folder), [4e6])
    fields = as_fields(predictions)
    libra, base = fields["modes"]["libra"], fields["modes"]["server-only"]
    assert libra["error"] == pytest.approx(libra["predicted_s"] / 0.12 - 1)
    assert fields["speedup"]["predicted"] == pytest.approx(
        base["predicted_s"] / libra["predicted_s"]
    )
    (slower,) = libra["other_links"]
    assert slower["link_mbps"] == 4
    assert slower["predicted_s"] > libra["predicted_s"]
    assert "inks take" in in_words(predictions[1])
    assert libra["first_share"] == pytest.approx(1 - 0.002 / 0.016, rel=1e-3)
    assert libra["work_s"]["server"]["drain"] == {"busy_s": 0.010, "waited_s": 0.022}
    assert libra["processors"] == {"count": 2, "busy_share": 0.9, "own_share": 0.2}
    written = tmp_path / "figures.json"
    output = plan(
        "from-run", folder, "--bandwidth", "4M", "--json", written, "--out", tmp_path / "plots"
    )
    assert (tmp_path / "plots" / "rounds.png").exists()
    assert "speed-up of Libra over server-only: predicted" in output
    figures = json.loads(written.read_text())
    assert (figures["schema"], figures["modes"]["libra"]) == (1, libra)


def prediction_of(**changes: Any) -> ModePrediction:
    """Of a run of one mode, whose record has these changes."""
    mode = {**mode_of(traffic()), **changes}
    (prediction,) = predict_run(parse_run(run_of(libra=mode)))
    return prediction


def test_what_links_do_not_explain_is_said():
    """A round that takes far longer than predicted."""
    late = prediction_of(timeline={"at_s": [1.0, 2.0, 3.0, 4.0], "committed": [1, 2, 3, 4]})
    assert late.error < -0.15
    assert "time-outs after losses" in in_words(late)


def test_a_round_that_is_shorter_than_predicted_is_explained():
    """Parts that overlap."""
    early = prediction_of(timeline={"at_s": [1.0, 1.001, 1.002], "committed": [1, 2, 3]})
    assert early.error > 0.15
    assert "It takes less than its parts add up to" in in_words(early)


def test_faults_of_a_run_are_named():
    """Each once, instead of guesses; a model of rounds knows nothing of them."""
    fault = {"action": "kill", "target": "switch", "round": 1, "phase": None, "at_s": 1.0}
    late = prediction_of(
        timeline={"at_s": [1.0, 2.0, 3.0, 4.0], "committed": [1, 2, 3, 4]},
        faults=[fault, fault, {**fault, "target": "worker1"}],
    )
    words = in_words(late)
    assert "It had faults (kill switch, kill worker1): what they cost is not predicted" in words
    assert "time-outs" not in words


def test_the_machine_is_named_where_it_is_the_bottleneck():
    """When processes waited, for how long, and what a round takes without; else links are."""
    waiting = prediction_of()
    words = in_words(waiting)
    assert waiting.waiting > 0.15
    assert words.startswith("Libra: processors are the bottleneck; links take")
    assert "most in push (" in words
    assert "2 processors were busy 90% of the time, 20% with this run" in words
    calm = prediction_of(phases_waited_s={}, server_phases_waited_s={}, processors=None)
    assert calm.waiting == 0
    words = in_words(calm)
    assert words.startswith("Libra: links take")
    assert "wait" not in words
    assert "busy" not in words


def test_a_record_without_counts_of_processors_is_predicted_from_links():
    """Records of earlier versions lack them."""
    mode = mode_of(traffic())
    lacking = [name for name in mode if "busy" in name or "waited" in name or "least" in name]
    for name in (*lacking, "phases_most_s", "processors"):
        del mode[name]
    (prediction,) = predict_run(parse_run(run_of(libra=mode)))
    assert prediction.here.round_s == prediction.here.free_s
    assert prediction.profile.first_share == (1 + 1 / WORKERS) / 2


def test_rates_are_those_of_each_link():
    """The server's, and the slowest worker's."""
    run = run_of(libra=mode_of(traffic()))
    run["links_mbps"] = {"server": 8.0, "worker1": 8.0, "worker2": 1.0, "worker3": 2.0}
    (prediction,) = predict_run(parse_run(run))
    assert prediction.here.rates == LinkRates(8e6, 1e6)
    (alike,) = predict_run(parse_run(run_of(libra=mode_of(traffic()))))
    assert alike.here.rates == LINKS
    assert alike.here.round_s < prediction.here.round_s


def test_runs_that_cannot_be_predicted_are_refused(tmp_path: Path):
    """No barrier, no rate, no bytes, no run."""
    for change, message in (
        ({"consistency": "async"}, "kept in step by async"),
        ({"servers": 2}, "sharded over 2 servers"),
        ({"framework": "torch"}, "computed with torch: what they reduce"),
        ({"link_mbps": None}, "does not say the rate"),
        ({"links_mbps": {"worker1": 5.0, "worker2": 5.0}}, "does not say the rate"),
        ({"lanes": 7}, "7 lanes: allowed are"),
    ):
        with pytest.raises(PlanError, match=message):
            predict_run(parse_run({**run_of(libra=mode_of(traffic())), **change}))
    mode = mode_of(traffic())
    del mode["bytes"]
    with pytest.raises(PlanError, match="no bytes of the links"):
        predict_run(parse_run(run_of(libra=mode)))
    mode = {**mode_of(traffic()), "phases_least_s": {}}
    with pytest.raises(PlanError, match=r"has 0 least and \d+ longest times of updates"):
        predict_run(parse_run(run_of(libra=mode)))
    with pytest.raises(BadInput, match="is not a record of a run"):
        load_run(tmp_path / "absent")


@pytest.mark.parametrize(
    "changes",
    [
        {"timeline": {"at_s": [0.5, 0.5, 0.5], "committed": [1, 2, 3]}},
        {"timeline": {"at_s": [3.0, 2.0, 1.0], "committed": [1, 2, 3]}},
        {
            "phases_s": {"compute": [1e308] * ROUNDS, "push": [1.0] * ROUNDS},
            "server_phases_s": {"drain": [1.0] * ROUNDS, "apply": [1e308] * ROUNDS},
        },
    ],
)
def test_rounds_that_take_no_time_are_refused(changes: dict[str, Any]):
    """As none that can be, before anything is divided by them."""
    run = run_of(libra={**mode_of(traffic()), **changes})
    with pytest.raises(PlanError, match="no such run"):
        predict_run(parse_run(run))


def test_faster_links_are_bounded_from_above(tmp_path: Path):
    """What processes did while they waited for slow links is no measure there."""
    run = run_of(
        libra=mode_of(traffic()),
        server_only=mode_of(traffic(requests=0.0, drained=0.0, update=0.0), packets=0.0),
    )
    (tmp_path / "run.json").write_text(json.dumps(run))
    predictions = predict_run(load_run(tmp_path), [4e6, 16e6])
    fields = as_fields(predictions)
    assert [other["at_most"] for other in fields["modes"]["libra"]["other_links"]] == [False, True]
    assert [other["predicted"] is None for other in fields["speedup"]["other_links"]] == [
        False,
        True,
    ]
    output = plan("from-run", tmp_path, "--bandwidth", "4M,16M")
    assert "≤ " in output
    assert "Run it on such links to know" in " ".join(output.split())
