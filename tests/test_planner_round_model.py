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
from planner.from_run import ModePrediction, as_fields, in_words, load_run, predict_run
from planner.round_bytes import RoundBytes
from planner.round_model import LinkRates, RoundProfile, Work, measured_s, predict
from tests.test_planner_cli import plan

GRAD_BYTES, ACK_BYTES, DRAIN_BYTES = 42 + 16 + 4 + 32 * 6, 42 + 16, 42 + 16 + 6
WORKERS, ROUNDS, PACKETS = 4, 10, 50.0
RATE_BPS = 8e6  # a megabyte a second
LINKS = LinkRates.all(RATE_BPS)

SIZES = st.floats(0, 1e6)


def traffic(**changes: float) -> RoundBytes:
    """Bytes of a round in which everything is different."""
    own = PACKETS * GRAD_BYTES + 5_000
    sizes = {"own": own, "push": WORKERS * 5_000, "drained": 30_000.0, "update": 20_000.0}
    sizes |= {"requests": 100.0 * DRAIN_BYTES, "cold_down": 4_000.0}
    return RoundBytes(WORKERS, **{**sizes, **changes})


def profile_of(traffic_: RoundBytes, **changes: Any) -> RoundProfile:
    """A profile without waiting, whose workers get their values at once."""
    worker = {"compute": Work(0.01)}
    server = {"apply": Work(0.002)}
    profile = RoundProfile(traffic_, worker, server, drain_rest_s=0.005, spread_s=0.0, rates=LINKS)
    return replace(profile, **changes)


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
            ROUNDS * (bytes_.update + bytes_.requests)
            + WORKERS * asked
            + (0 if switch else WORKERS * acks)
        ),
    }
    return {
        "model_sha256": "0" * 64,
        "round_s": [1.0] * ROUNDS,
        "round_s_median": 1.0,
        "phases_s": {"compute": [0.01] * ROUNDS, "push": [values_s] * ROUNDS},
        "phases_busy_s": {"push": [0.003] * ROUNDS, "update": [0.001] * ROUNDS},
        "phases_waited_s": {"compute": [0.004] * ROUNDS, "push": [0.05] * ROUNDS},
        "phases_least_s": {"update": [0.004] * ROUNDS},
        "phases_most_s": {"update": [0.006] * ROUNDS},
        "server_phases_s": {"drain": [0.035] * ROUNDS, "apply": [0.002] * ROUNDS},
        "server_phases_busy_s": {"drain": [0.010] * ROUNDS, "update": [0.012] * ROUNDS},
        "server_phases_waited_s": {"drain": [0.022] * ROUNDS, "update": [0.001] * ROUNDS},
        "processors": {
            "count": 2,
            "watched_s": 10.0,
            "busy_s": 18.0,
            "pressure": {"some_s": 5.0, "full_s": 0.0},
            "processes": {"server": {"busy_s": 4.0, "waited_s": 1.0}},
        },
        "bytes": links,
        "counters": {"aggregated": 100 if switch else 0},
        "server_counters": {"drain_requests": round(ROUNDS * bytes_.requests / DRAIN_BYTES)},
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
    """GRADs stay with the switch, DRAINs go no further; values and UPDATEs are told apart."""
    expected = traffic()
    found = bytes_of(mode_of(expected))
    for name in ("own", "push", "requests", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_without_a_switch_are_taken_apart():
    """GRADs go on to the server, which acknowledges them; nothing is drained."""
    own = PACKETS * GRAD_BYTES + 5_000
    expected = traffic(push=WORKERS * own, requests=0.0, drained=0.0)
    found = bytes_of(mode_of(expected, switch=False))
    for name in ("own", "push", "requests", "drained", "update", "cold_down"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-3), name


def test_bytes_of_a_server_alone_are_pushes_and_values():
    """No GRADs, no UPDATEs."""
    expected = traffic(own=9_000.0, push=WORKERS * 9_000, requests=0.0, drained=0.0, update=0.0)
    found = bytes_of(mode_of(expected, packets=0.0))
    assert (found.push, found.drained) == (WORKERS * 9_000, 0.0)
    assert found.cold_down == pytest.approx(4_000, rel=1e-3)
    assert found.update == 0


def test_links_between_switches_are_no_workers():
    """Nor is anything else that a run counts."""
    mode = mode_of(traffic())
    more = {"leaf1-spine1": mode["bytes"]["server"], "server2": mode["bytes"]["server"]}
    assert bytes_of({**mode, "bytes": {**mode["bytes"], **more}}) == bytes_of(mode)


def test_one_worker_gets_all_that_a_server_sends():
    """There is no other link to tell values by, and without hot keys no UPDATE."""
    mode = mode_of(traffic(own=9_000.0, requests=0.0, drained=0.0, update=0.0), packets=0.0)
    links = {name: mode["bytes"][name] for name in ("server", "worker1")}
    links["server"]["to_switch"] = links["worker1"]["from_switch"]
    found = bytes_of({**mode, "bytes": links})
    assert found.cold_down == pytest.approx(4_000, rel=1e-3)
    assert (found.workers, found.update) == (1, 0)


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


def test_parts_of_a_round_add_up():
    """Links alone, with values that all workers get at once, one after the other, or in between."""
    time = predict(profile_of(traffic(own=12_000.0)), LINKS)
    update_s, values_s, push_s = 0.020, 0.016, 0.020
    rest_s = 0.01 + 0.002 + (0.030 + 0.005)
    assert time.high_s == pytest.approx(rest_s + update_s + values_s + push_s)
    assert time.round_s == time.free_s == time.high_s
    assert time.links_s == pytest.approx(0.030 + update_s + values_s + push_s)
    # The last one has its values after 36 ms and pushes for 12; the first ones since 24 ms.
    assert time.low_s == pytest.approx(rest_s + 0.048)
    some = predict(profile_of(traffic(own=12_000.0), spread_s=0.004), LINKS)
    assert some.round_s == pytest.approx(rest_s + update_s + 0.75 * values_s + push_s)
    unknown = predict(profile_of(traffic(own=12_000.0), spread_s=None), LINKS)
    assert unknown.round_s == pytest.approx(rest_s + update_s + 0.625 * values_s + push_s)
    for each in (time, some, unknown):
        assert sum(each.parts_s.values()) == pytest.approx(each.round_s)


def test_workers_ask_while_others_push():
    """Eight workers, whose own links carry GRADs longer than the server's carries their requests.

    The first one has its values after 21 ms and the last one, which pushes for 25 ms, after 28.
    Pushes and requests of all, 24 ms at the server, were there by then: they add nothing.
    """
    eight = RoundBytes(8, 25_000.0, 24_000.0, 6_400.0, 30_000.0, 20_000.0, 1_000.0)
    time = predict(profile_of(eight, spread_s=0.007), LINKS)
    assert time.parts_s["push"] == pytest.approx(0.025)
    assert time.parts_s["overlap"] == pytest.approx(0)
    assert time.round_s == pytest.approx(0.01 + 0.002 + 0.035 + 0.028 + 0.025)
    # With 40 ms at the server, that is what counts, and all that the last one does is hidden.
    more = predict(profile_of(replace(eight, push=40_000.0), spread_s=0.007), LINKS)
    assert more.parts_s["overlap"] == pytest.approx(-0.007)
    assert more.round_s == pytest.approx(0.01 + 0.002 + 0.035 + 0.021 + 0.040)


def test_the_first_worker_is_not_judged_by_the_last_alone():
    """Where one comes late for reasons of its own, how long the first one waited counts."""
    late = profile_of(traffic(), spread_s=0.030, first_s=0.006)
    assert late.first_share == pytest.approx(6 / 16)
    assert replace(late, first_s=0.0).first_share == 1 / WORKERS
    assert replace(late, spread_s=0.004).first_share == pytest.approx(12 / 16)
    assert replace(late, first_s=0.020).first_share == 1


def test_requests_of_the_server_pass_while_sums_come():
    """DRAINs go the other way: whichever is more counts."""
    assert predict(profile_of(traffic(requests=29_000.0)), LINKS).parts_s["drain"] == pytest.approx(
        0.030 + 0.005
    )
    assert predict(profile_of(traffic(requests=40_000.0)), LINKS).parts_s["drain"] == pytest.approx(
        0.040 + 0.005
    )


def test_a_part_takes_as_long_as_its_link_or_its_process():
    """Whichever is slower; and what waiting adds is told apart."""
    worker = {"compute": Work(0.01, 0.002), "push": Work(0.03, 0.05), "update": Work(0.001, 0.003)}
    server = {
        "gather": Work(0.02, 0.01),
        "drain": Work(0.01, 0.01),
        "apply": Work(0.002),
        "update": Work(0.01, 0.03),
    }
    own = 10_000.0
    busy = profile_of(traffic(own=own), worker=worker, server=server)
    parts = predict(busy, LINKS).parts_s
    assert parts["compute"] == pytest.approx(0.012)
    assert parts["values"] == pytest.approx(0.016 + 0.004)
    assert parts["push"] == pytest.approx(0.08)  # the worker's work
    assert parts["drain"] == pytest.approx(0.030 + 0.005)  # the link
    assert parts["update"] == pytest.approx(0.04)  # the server's work
    waits = predict(busy, LINKS).waits_s
    assert waits["push"] == pytest.approx(0.08 - 0.03)
    assert waits["drain"] == 0
    assert waits["update"] == pytest.approx(0.04 - 0.02)
    time = predict(busy, LINKS)
    assert time.links_s < time.free_s < time.round_s
    taking = {**worker, "commit": Work(0.02, 0.03)}
    assert predict(replace(busy, worker=taking), LINKS).parts_s["update"] == pytest.approx(0.05)
    nothing = profile_of(traffic(own=own, update=0.0), worker=taking, server={})
    assert predict(nothing, LINKS).parts_s["update"] == 0  # it waits, and takes no UPDATEs
    at_server = replace(busy, server={**server, "gather": Work(0.06, 0.06)})
    assert predict(at_server, LINKS).parts_s["push"] == pytest.approx(0.12)


def test_a_slow_worker_holds_up_all():
    """Its link carries its own bytes; the server's carries those of all."""
    slow = LinkRates(RATE_BPS, RATE_BPS / 20)
    parts = predict(profile_of(traffic(own=6_000.0)), slow).parts_s
    assert parts["update"] == pytest.approx(20 * 0.020)
    assert parts["values"] == pytest.approx(20 * 0.004)
    assert parts["push"] == pytest.approx(20 * 0.006)
    assert parts["overlap"] == pytest.approx(0)
    assert parts["drain"] == pytest.approx(0.035)


def test_links_do_not_wait_for_each_other():
    """A worker's link still carries UPDATEs while the server's sends values to others.

    At half the rate of the server's it has brought both after 48 ms, and pushes for 12; the server
    has sent all after 36 ms, and receives for 20.
    """
    half = LinkRates(RATE_BPS, RATE_BPS / 2)
    parts = predict(profile_of(traffic(own=6_000.0)), half).parts_s
    alone = [parts[name] for name in ("update", "values", "push")]
    assert alone == pytest.approx([0.040, 0.016, 0.020])
    assert parts["overlap"] == pytest.approx(0.060 - 0.076)


def test_a_slow_server_holds_up_all():
    """Whatever passes its link takes longer, and nothing else."""
    slow = LinkRates(RATE_BPS / 4, RATE_BPS)
    parts = predict(profile_of(traffic(own=6_000.0)), slow).parts_s
    assert parts["update"] == pytest.approx(4 * 0.020)
    assert parts["values"] == pytest.approx(4 * 0.016)
    assert parts["push"] == pytest.approx(4 * 0.020)
    assert parts["drain"] == pytest.approx(4 * 0.030 + 0.005)


@settings(derandomize=True, deadline=None)
@given(
    st.integers(1, 64),
    st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES, SIZES),
    st.tuples(*[st.builds(Work, st.floats(0, 1), st.floats(0, 1))] * 8),
    st.tuples(st.floats(1e5, 1e10), st.floats(1e5, 1e10)),
    st.none() | st.floats(0, 1),
)
def test_predictions_are_ordered_and_fall_with_the_rate(
    workers: int,
    sizes: tuple[float, ...],
    works: tuple[Work, ...],
    rates_bps: tuple[float, float],
    spread_s: float | None,
):
    """Low ≤ predicted ≤ high; links ≤ free ≤ predicted; faster links never make it longer."""
    traffic_ = RoundBytes(workers, *sizes)
    worker = dict(zip(("compute", "push", "commit", "update"), works[:4], strict=True))
    server = dict(zip(("gather", "drain", "apply", "update"), works[4:], strict=True))
    measured = LinkRates(*rates_bps)
    profile = RoundProfile(traffic_, worker, server, 0.01, spread_s, measured)
    slow, fast = (
        predict(profile, measured),
        predict(profile, LinkRates(2 * rates_bps[0], 2 * rates_bps[1])),
    )
    for time in (slow, fast):
        assert time.low_s <= time.round_s * (1 + 1e-9)
        assert time.round_s <= time.high_s * (1 + 1e-9)
        assert time.links_s <= time.free_s * (1 + 1e-9)
        assert time.free_s <= time.round_s * (1 + 1e-9)
        assert min(time.waits_s.values()) >= -1e-9
        assert max(time.parts_s["overlap"], 0.0) <= 1e-9 * time.round_s
        assert sum(time.parts_s.values()) == pytest.approx(time.round_s)
    assert fast.round_s <= slow.round_s * (1 + 1e-9)
    for rates in (
        LinkRates(2 * rates_bps[0], rates_bps[1]),
        LinkRates(rates_bps[0], 2 * rates_bps[1]),
    ):
        assert predict(profile, rates).round_s <= slow.round_s * (1 + 1e-9)


def test_the_time_of_a_round_is_that_between_commits():
    """Without them, that of the rounds."""
    mode = parse_run(run_of(libra=mode_of(traffic()))).modes["libra"]
    assert measured_s(mode) == pytest.approx(0.12)
    assert measured_s(replace(mode, timeline=None)) == 1.0


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
