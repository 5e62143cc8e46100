"""Fusion, queues and schemes: small cases by hand, an oracle, and what must hold everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.collectives import SCHEMES, Conditions, Scheme
from planner.errors import PlanError
from planner.fusion import Fusion
from planner.hot_cold import HotCold
from planner.profile import Profile
from planner.simulation import Job, overhead_s, passage, scaling_factor
from planner.topology.fabrics import Switched
from planner.topology.fluid import simulate
from planner.topology.taskgraph import Task, TaskGraph, Transfer
from planner.transport import Transport
from tests.planner_support import ADDS, profile_of, profiles

NO_ADDS = replace(ADDS, seconds=np.zeros(2))
MANY = settings(derandomize=True, deadline=None, max_examples=60)
SMALL_LINKS = Transport.measured({1e9: 0.95e9, 10e9: 8e9, 100e9: 32e9}, "made up")


def schemes(adds=ADDS) -> st.SearchStrategy[Scheme]:
    """Any scheme."""
    return st.builds(
        Scheme,
        name=st.sampled_from(sorted(SCHEMES)),
        servers=st.integers(1, 8),
        adds=st.just(adds),
        hot_cold=st.builds(HotCold, st.floats(0, 1), st.floats(1, 8)),
    )


def test_fusion_waits_for_time_or_size_and_sends_the_rest():
    """5 ms or 64 MiB, tested after a tensor was added; the rest at the end."""
    mib = 1 << 20
    profile = profile_of([3, 2, 1, 1, 1], [mib, mib, 100 * mib, 5, 7])
    messages = Fusion().messages(profile)
    assert messages.ready_s == pytest.approx([0.005, 0.006, 0.008])
    assert messages.size_bytes.tolist() == [2 * mib, 100 * mib, 12]


def test_a_ring_of_two_costs_what_the_formula_says():
    """2·8·S·(N−1)/(N·rate·ratio) and one addition of half a message, when the pass has ended."""
    job = Job(profile_of([10], [1_000_000]), scheme=Scheme(adds=ADDS))
    found = overhead_s(job, job.conditions(1e9, 2, 2.0))
    assert float(found) == pytest.approx(2 * 8e6 / (2 * 1e9 * 2) + 1e-5 + 500_000 * 3.99e-12)


@pytest.mark.parametrize(
    ("name", "servers", "expected_s"),
    [
        ("ring", 1, 2 * 0.75),
        ("tree", 1, 2 * 2),
        ("halving-doubling", 1, 2 * 0.75),
        ("parameter-server", 1, 4 + 4),
        ("parameter-server", 2, 2 + 2),
        ("parameter-server", 8, 1 + 1),
        ("in-network", 1, 1),
    ],
)
def test_schemes_move_their_bytes(name: str, servers: int, expected_s: float):
    """Four workers, a message that takes a second on a link, additions that cost nothing."""
    scheme = Scheme(name, servers, NO_ADDS)
    stages = scheme.stages(1e6, Conditions(4, 8e6))
    assert sum(float(stage) for stage in stages) == pytest.approx(expected_s)


def test_halving_doubling_pays_for_a_surplus():
    """Six workers: two give their gradients away first and get the sums last."""
    scheme = Scheme("halving-doubling", adds=NO_ADDS)
    (seconds,) = scheme.stages(1e6, Conditions(np.array([4, 6, 8]), 8e6))
    assert seconds == pytest.approx([1.5, 3.5, 1.75])


def test_libra_relieves_the_server():
    """Hot gradients pass the server's link once for all workers, cold ones once for each."""
    at = Conditions(8, 8e6)
    cold, hot = (
        Scheme("libra", adds=NO_ADDS, hot_cold=HotCold(coverage)).stages(1e6, at)
        for coverage in (0.0, 1.0)
    )
    mix = HotCold(1.0)
    assert float(cold[0]) == pytest.approx(8 * HotCold(0.0).server_in_cold)
    assert float(hot[0]) == pytest.approx(max(mix.worker_up, mix.server_in_hot))
    assert float(hot[1]) == pytest.approx(mix.server_out_hot)
    assert float(cold[0]) / float(hot[0]) > 8


def test_packets_of_hot_gradients_have_the_sizes_of_the_wire():
    """A full GRAD of 32 lanes: 42 bytes of frame, 16 of header, 4 of bitmap, 6 a lane."""
    assert HotCold(1.0).worker_up == pytest.approx((42 + 16 + 4 + 32 * 6) / 128)


def test_a_single_worker_has_no_overhead():
    """Whatever the scheme."""
    for name in SCHEMES:
        job = Job(profile_of([1], [10**9]), scheme=Scheme(name))
        assert float(overhead_s(job, job.conditions(1e6, 1))) == 0


def test_workers_of_a_host_share_its_link():
    """A server sees hosts, a ring sees workers."""
    profile = profile_of([1], [10**7])
    server = Job(profile, scheme=Scheme("parameter-server", adds=ADDS), per_host=8)
    alone = replace(server, per_host=1)
    at_hosts = overhead_s(server, server.conditions(1e9, 64))
    assert float(at_hosts) == float(overhead_s(alone, alone.conditions(1e9, 8)))
    ring = Job(profile, per_host=8)
    one = replace(ring, per_host=1)
    assert overhead_s(ring, ring.conditions(1e9, 64)) == overhead_s(one, one.conditions(1e9, 64))


def test_the_slowest_worker_holds_up_the_others():
    """A ring is as fast as its slowest link; a server's own link is not slowed."""
    job = Job(profile_of([1], [10**7]), slowest_bps=1e9)
    slow = Job(profile_of([1], [10**7]))
    assert overhead_s(job, job.conditions(1e10, 4)) == overhead_s(slow, slow.conditions(1e9, 4))
    server = replace(job, scheme=Scheme("parameter-server", adds=NO_ADDS))
    assert float(overhead_s(server, server.conditions(1e10, 4))) == pytest.approx(2 * 0.08)


def test_compression_costs_time_only_where_there_is_some():
    """Ratio 1 costs nothing."""
    scheme = Scheme(adds=NO_ADDS, compression_s_per_byte=1e-9)
    at = Conditions(np.array([2, 2]), 1e9, np.array([1.0, 2.0]))
    assert scheme.stages(1e6, at)[0] == pytest.approx([8e-3, 4e-3 + 1e-3])


def critical_path(job: Job, at: Conditions) -> float:
    """When the last sum is back, by the longest path through messages and stages."""
    messages = job.messages()
    costs = [job.scheme.stages(float(size), at) for size in messages.size_bytes]
    last = len(messages)
    paths = []
    for first in range(last):
        turns = [last - 1] if len(costs[0]) == 1 else list(range(first, last))
        for turn in turns:
            up = sum(float(costs[m][0]) for m in range(first, turn + 1))
            down = sum(float(costs[m][-1]) for m in range(turn, last)) if len(costs[0]) > 1 else 0
            paths.append(float(messages.ready_s[first]) + up + down)
    return max(paths)


@MANY
@given(profiles(), schemes(), st.integers(1, 64), st.floats(1e6, 1e12), st.booleans())
def test_queues_end_with_the_longest_path(
    profile: Profile, scheme: Scheme, workers: int, rate_bps: float, overlap: bool
):
    """The recursion and the critical path agree, and a passage with both."""
    job = Job(profile, scheme=scheme, overlap=overlap)
    at = job.conditions(rate_bps, workers)
    end_s = critical_path(job, at)
    expected = max(end_s - profile.backward_s, 0.0)
    assert float(overhead_s(job, at)) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    passed = passage(job, at)
    assert passed.overhead_s == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert passed.end_s[-1] == pytest.approx(end_s)


@MANY
@given(profiles(), schemes(), st.integers(1, 500), st.booleans())
def test_more_bandwidth_never_scales_worse(
    profile: Profile, scheme: Scheme, workers: int, measured: bool
):
    """With full links and with a transport that fills fast ones badly."""
    transport = SMALL_LINKS if measured else Transport.constant(0.7)
    job = Job(profile, scheme=scheme, transport=transport)
    found = scaling_factor(job, job.conditions(np.geomspace(1e6, 1e13, 40), workers))
    assert (np.diff(found) >= -1e-12).all()


@MANY
@given(profiles(), schemes(), st.integers(1, 500), st.floats(1e7, 1e12))
def test_more_compression_never_scales_worse(
    profile: Profile, scheme: Scheme, workers: int, rate_bps: float
):
    """Where compressing costs nothing."""
    job = Job(profile, scheme=scheme)
    found = scaling_factor(job, job.conditions(rate_bps, workers, np.geomspace(1, 1000, 40)))
    assert (np.diff(found) >= -1e-12).all()


@MANY
@given(profiles(), schemes(), st.floats(1e7, 1e12))
def test_more_workers_never_scale_better(profile: Profile, scheme: Scheme, rate_bps: float):
    """For halving-doubling among powers of two: another number has its surplus to pay for."""
    job = Job(profile, scheme=scheme)
    powers = scheme.name == "halving-doubling"
    workers = 2 ** np.arange(11) if powers else np.arange(1, 200)
    found = scaling_factor(job, job.conditions(rate_bps, workers))
    assert (np.diff(found) <= 1e-12).all()


@MANY
@given(profiles(), schemes(), st.integers(2, 64), st.floats(1e7, 1e12))
def test_overlap_and_coverage_never_scale_worse(
    profile: Profile, scheme: Scheme, workers: int, rate_bps: float
):
    """Messages that leave early, and more hot gradients where workers share keys."""
    job = Job(profile, scheme=scheme)
    at = job.conditions(rate_bps, workers)
    late = replace(job, overlap=False)
    assert scaling_factor(job, at) >= scaling_factor(late, at) - 1e-12
    factors = [
        float(scaling_factor(job, at, Scheme("libra", 1, ADDS, HotCold(share))))
        for share in (0.0, 0.5, 1.0)
    ]
    assert factors == sorted(factors)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scheme("mesh"), "unknown scheme 'mesh'; known are ring, tree"),
        (lambda: Scheme(servers=0), "servers 0: allowed are 1"),
        (lambda: Scheme(compression_s_per_byte=-1), "allowed are 0 to 1"),
        (lambda: Conditions(0, 1e9), "workers 0: allowed are 1"),
        (lambda: Conditions(1, 0), "goodput: need numbers above 0"),
        (lambda: Conditions(1, 1e9, 0.5), "ratio 0.5: allowed are ratios from 1"),
        (lambda: Conditions(1, 1e9, latency_s=-1), "latency -1 s: allowed are"),
        (lambda: Conditions(1, 1e9, per_host=0), "0 workers a host: allowed are 1"),
        (lambda: HotCold(1.1), "hot coverage 1.1"),
        (lambda: HotCold(1.0, 0.5), "distinct hot keys 0.5"),
        (lambda: HotCold(1.0, float("inf")), "distinct hot keys inf"),
        (lambda: HotCold(lanes=7), "7 lanes: allowed are 8, 16, 32, 64"),
        (lambda: Fusion(wait_s=0), "fusion: wait is 0"),
        (lambda: Transport.constant(0), "utilisation 0"),
        (lambda: Transport.measured({}, ""), "needs a point"),
        (lambda: Transport.measured({1e9: 2e9}, ""), "a goodput of 2e"),
    ],
)
def test_what_is_not_allowed_is_named(make, message: str):
    """The error has the value and the range."""
    with pytest.raises(PlanError, match=message):
        make()


def test_a_measured_curve_is_followed_levelled_and_held():
    """Between points lines, below the first its share, above the last a plateau."""
    curve = Transport.measured({1e9: 0.9e9, 2e9: 0.8e9, 4e9: 3e9}, "made up")
    assert curve.goodput([0.5e9, 1e9, 2e9, 3e9, 4e9, 9e9]) == pytest.approx(
        [0.45e9, 0.9e9, 0.9e9, 1.95e9, 3e9, 3e9]
    )


@MANY
@given(st.lists(st.floats(1e8, 1e10), min_size=1, max_size=6), st.floats(1e8, 1e10))
def test_receiving_from_different_links(rates_bps: list[float], server_bps: float):
    """Gradients over fair links to one server: all are there when the slower of two things is.

    That is the slowest worker's link by itself, or the server's with everything.
    """
    size, workers = 1e6, len(rates_bps)
    star = Switched(workers + 1, server_bps)
    star.capacity[:workers] = np.array(rates_bps) / 8000
    tasks = [Task(0.0, None, Transfer(i, workers, size)) for i in range(workers)]
    took_s = simulate(TaskGraph.build(workers + 1, tasks), star).iteration_ms / 1e3
    at = Conditions(workers, min(rates_bps), server_goodput_bps=server_bps)
    up, _ = SCHEMES["parameter-server"](Scheme(adds=NO_ADDS), size, at)
    assert took_s == pytest.approx(float(up))
