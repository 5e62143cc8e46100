"""Rounds of a run: times put together."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos.run_record import parse_run
from planner.round_bytes import RoundBytes
from planner.round_model import LinkRates, RoundProfile, Work, measured_s, predict
from tests.planner_rounds import LINKS, RATE_BPS, WORKERS, mode_of, profile_of, run_of, traffic

SIZES = st.floats(0, 1e6)


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
