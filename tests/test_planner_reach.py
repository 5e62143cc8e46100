"""The smallest ratio, rate and hot coverage that reach a target."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.collectives import Scheme
from planner.errors import PlanError
from planner.profile import Profile
from planner.reach import smallest_coverage, smallest_rate_bps, smallest_ratio
from planner.simulation import Job, scaling_factor
from planner.transport import Transport
from tests.planner_support import ADDS, profile_of, profiles

FEW = settings(derandomize=True, deadline=None, max_examples=40)
RATE_BPS = 10e9


def factor(job: Job, rate_bps: float, workers: int, ratio: float = 1.0) -> float:
    """The scaling factor at a point."""
    return float(scaling_factor(job, job.conditions(rate_bps, workers, ratio)))


@FEW
@given(profiles(), st.integers(2, 64), st.floats(0.3, 0.99))
def test_the_ratio_is_the_smallest(profile: Profile, workers: int, target: float):
    """It reaches the target, and a little less does not."""
    job = Job(profile, scheme=Scheme(adds=ADDS))
    ratio = smallest_ratio(job, RATE_BPS, workers, target)
    assume(ratio is not None)
    assert factor(job, RATE_BPS, workers, ratio) >= target
    if ratio > 1.001:
        assert factor(job, RATE_BPS, workers, ratio / 1.001) < target


@FEW
@given(profiles(), st.integers(2, 64), st.floats(0.3, 0.99))
def test_the_rate_is_the_smallest(profile: Profile, workers: int, target: float):
    """It reaches the target, and a little less does not."""
    job = Job(profile, scheme=Scheme(adds=ADDS))
    rate_bps = smallest_rate_bps(job, workers, 1.0, target)
    assume(rate_bps is not None)
    assert factor(job, rate_bps, workers) >= target
    if rate_bps > 2e3:
        assert factor(job, rate_bps / 1.001, workers) < target


def test_what_no_network_reaches_is_none():
    """Additions that take longer than the iteration; a transport that is full."""
    slow = Job(profile_of([1], [10**9], 0.01), scheme=Scheme(adds=ADDS))
    assert smallest_ratio(slow, RATE_BPS, 64, 0.95) is None
    full = Transport.measured({1e9: 0.5e9}, "made up")
    job = Job(profile_of([1], [10**8], 0.1), transport=full)
    assert smallest_rate_bps(job, 8, 1.0, 0.95) is None


def test_a_job_that_needs_nothing_is_told_so():
    """Ratio 1; no hot key."""
    job = Job(profile_of([1], [1000], 10.0), scheme=Scheme(adds=ADDS))
    assert smallest_ratio(job, RATE_BPS, 4, 0.9) == 1
    assert smallest_coverage(job, job.scheme, RATE_BPS, 4, 0.9) == 0


def test_coverage_is_the_smallest():
    """Sixteen workers that share one server, sparse enough for hot keys to pay."""
    job = Job(profile_of([10, 10, 10], [2_000_000] * 3, 0.2), scheme=Scheme(adds=ADDS))
    share = smallest_coverage(job, job.scheme, RATE_BPS, 16, 0.95)
    assert share is not None
    assert 0 < share < 1
    mix = job.scheme.hot_cold
    below, at = (
        float(
            scaling_factor(
                job,
                job.conditions(RATE_BPS, 16),
                Scheme("libra", adds=ADDS, hot_cold=mix.covering(part)),
            )
        )
        for part in (share * 0.99, share)
    )
    assert below < 0.95 <= at


@pytest.mark.parametrize("target", [0, 1, -1, 2])
def test_targets_are_between_0_and_1(target: float):
    """A scaling factor of 1 is never reached, 0 always."""
    with pytest.raises(PlanError, match="between 0 and 1"):
        smallest_ratio(Job(profile_of([1], [1])), 1e9, 2, target)
