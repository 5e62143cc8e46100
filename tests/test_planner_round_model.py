"""Rounds of a run: bytes taken apart, times put together, prediction beside measurement."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput
from mininet_topos.run_record import parse_run
from planner.errors import PlanError
from planner.from_run import as_fields, in_words, load_run, predict_run
from planner.round_model import RoundBytes, RoundProfile, measured_s, predict
from tests.test_planner_cli import plan

GRAD_BYTES, ACK_BYTES = 42 + 16 + 4 + 32 * 6, 42 + 16
WORKERS, ROUNDS, PACKETS = 4, 10, 50.0
RATE_BPS = 8e6  # a megabyte a second

SIZES = st.floats(0, 1e6)


def traffic(**changes: float) -> RoundBytes:
    """Bytes of a round in which everything is different."""
    own = PACKETS * GRAD_BYTES + 5_000
    sizes = {"own": own, "push": WORKERS * 5_000, "drained": 30_000.0, "update": 20_000.0}
    return RoundBytes(WORKERS, **{**sizes, "cold_down": 4_000.0, **changes})


def mode_of(bytes_: RoundBytes, *, switch: bool = True, packets: float = PACKETS) -> dict[str, Any]:
    """What a run records of rounds with these bytes; after the last one nobody asks for values."""
    asked = bytes_.cold_down * (ROUNDS - 1)
    acks = ROUNDS * packets * ACK_BYTES
    values_s, links = 8 * bytes_.values / RATE_BPS, {}
    for worker in range(1, WORKERS + 1):
        links[f"worker{worker}"] = {
            "to_switch": round(ROUNDS * bytes_.own),
            "from_switch": round(ROUNDS * bytes_.update + asked + acks),
        }
    links["server"] = {
        "from_switch": round(ROUNDS * (bytes_.push + bytes_.drained)),
        "to_switch": round(
            ROUNDS * bytes_.update + WORKERS * asked + (0 if switch else WORKERS * acks)
        ),
    }
    return {
        "model_sha256": "0" * 64,
        "round_s": [1.0] * ROUNDS,
        "round_s_median": 1.0,
        "phases_s": {"compute": [0.01] * ROUNDS, "push": [values_s] * ROUNDS},
        "server_phases_s": {"drain": [0.035] * ROUNDS, "apply": [0.002] * ROUNDS},
        "bytes": links,
        "counters": {"aggregated": 100 if switch else 0},
        "retransmissions": 0,
        "packets_per_push": {"mean": packets, "ratio": 1.0} if packets else None,
        "timeline": {"at_s": [0.5, 0.62, 0.74, 0.9], "committed": [1, 2, 3, 4]},
    }


def run_of(**modes: dict[str, Any]) -> dict[str, Any]:
    """A run on links of `RATE_BPS`."""
    return {
        "schema": 1,
        "dataset": "made",
        "model": "lr",
        "workers": WORKERS,
        "rounds": ROUNDS,
        "lanes": 32,
        "link_mbps": RATE_BPS / 1e6,
        "modes": {name.replace("_", "-"): mode for name, mode in modes.items()},
    }


def bytes_of(mode: dict[str, Any]) -> RoundBytes:
    """The bytes that are read from a record."""
    return RoundBytes.of(parse_run(run_of(libra=mode)).modes["libra"], 32)


def test_bytes_of_libra_are_taken_apart():
    """GRADs stay with the switch; values and UPDATEs are told apart."""
    expected = traffic()
    found = bytes_of(mode_of(expected))
    for name in ("own", "push", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_without_a_switch_are_taken_apart():
    """GRADs go on to the server, which acknowledges them; nothing is drained."""
    own = PACKETS * GRAD_BYTES + 5_000
    expected = traffic(push=WORKERS * own, drained=0.0)
    found = bytes_of(mode_of(expected, switch=False))
    for name in ("own", "push", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_of_a_server_alone_are_pushes_and_values():
    """No GRADs, no UPDATEs."""
    expected = traffic(own=9_000.0, push=WORKERS * 9_000, drained=0.0, update=0.0)
    found = bytes_of(mode_of(expected, packets=0.0))
    assert (found.push, found.drained) == (WORKERS * 9_000, 0.0)
    assert found.cold_down == pytest.approx(4_000, rel=1e-3)
    assert found.update == pytest.approx(0, abs=1)


def test_parts_of_a_round_add_up():
    """Values overlap with pushes of workers that have theirs, unless UPDATEs hold all of them up.

    Without UPDATEs the middle is taken.
    """
    profile = RoundProfile(traffic(own=6_000.0), compute_s=0.01, apply_s=0.002, drain_s=0.005)
    time = predict(profile, RATE_BPS)
    values_s, push_s = 0.016, 0.020
    rest_s = 0.01 + 0.002 + (0.030 + 0.005) + 0.020
    assert time.high_s == pytest.approx(rest_s + values_s + push_s)
    assert time.round_s == time.high_s
    alone = predict(replace(profile, traffic=traffic(own=6_000.0, update=0.0)), RATE_BPS)
    assert alone.round_s == pytest.approx(rest_s - 0.020 + 0.625 * values_s + push_s)
    some = predict(replace(profile, traffic=traffic(own=6_000.0, update=2_000.0)), RATE_BPS)
    assert some.round_s == pytest.approx(rest_s - 0.018 + 0.8125 * values_s + push_s)
    assert time.low_s == pytest.approx(rest_s + max(0.25 * values_s + push_s, values_s + 0.006))
    assert sum(time.parts_s.values()) == pytest.approx(time.round_s)


@settings(derandomize=True, deadline=None)
@given(
    st.integers(1, 64),
    st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    st.floats(1e5, 1e10),
)
def test_predictions_are_ordered_and_fall_with_the_rate(
    workers: int, sizes: tuple[float, ...], seconds: tuple[float, ...], rate_bps: float
):
    """Low ≤ predicted ≤ high; faster links never make a round longer; processors remain."""
    profile = RoundProfile(RoundBytes(workers, *sizes), *seconds)
    slow, fast = predict(profile, rate_bps), predict(profile, 2 * rate_bps)
    for time in (slow, fast):
        assert time.low_s <= time.round_s * (1 + 1e-9)
        assert time.round_s <= time.high_s * (1 + 1e-9)
        assert time.low_s >= sum(seconds) * (1 - 1e-9)
    assert fast.round_s <= slow.round_s * (1 + 1e-9)


def test_the_time_of_a_round_is_that_between_commits():
    """Without them, that of the rounds."""
    mode = parse_run(run_of(libra=mode_of(traffic()))).modes["libra"]
    assert measured_s(mode) == pytest.approx(0.12)
    assert measured_s(replace(mode, timeline=None)) == 1.0


def test_a_run_is_predicted_beside_its_measurement(tmp_path: Path):
    """As JSON, in words, and for links of other rates."""
    server_only = traffic(own=40_000.0, push=160_000.0, drained=0.0, update=0.0, cold_down=20_000.0)
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
    assert "Server only: links take" in in_words(predictions[1])
    written = tmp_path / "figures.json"
    output = plan("from-run", folder, "--bandwidth", "4M", "--json", written)
    assert "speed-up of Libra over server-only: predicted" in output
    assert json.loads(written.read_text())["modes"]["libra"] == libra


def test_what_links_do_not_explain_is_said():
    """A round that takes far longer than predicted."""
    mode = mode_of(traffic())
    mode["timeline"]["at_s"] = [1.0, 2.0, 3.0, 4.0]
    (prediction,) = predict_run(parse_run(run_of(libra=mode)))
    assert prediction.error < -0.15
    assert "processors, or time-outs after losses, are the bottleneck" in in_words(prediction)


def test_runs_that_cannot_be_predicted_are_refused(tmp_path: Path):
    """No barrier, no rate, no bytes, no run."""
    for change, message in (
        ({"consistency": "async"}, "kept in step by async"),
        ({"link_mbps": None}, "does not say the rate"),
        ({"lanes": 7}, "7 lanes: allowed are"),
    ):
        with pytest.raises(PlanError, match=message):
            predict_run(parse_run({**run_of(libra=mode_of(traffic())), **change}))
    mode = mode_of(traffic())
    del mode["bytes"]
    with pytest.raises(PlanError, match="no bytes of the links"):
        predict_run(parse_run(run_of(libra=mode)))
    with pytest.raises(BadInput, match="is not a record of a run"):
        load_run(tmp_path / "absent")
