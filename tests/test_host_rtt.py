"""The retransmission time-out, against RFC 6298's formulae."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.rtt import RttEstimator

seconds = st.floats(1e-6, 10, allow_nan=False)


def test_first_sample() -> None:
    """SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 RTTVAR (2.2)."""
    rtt = RttEstimator()
    rtt.sample(np.array([0.1]))
    assert (rtt.srtt_s, rtt.rttvar_s) == (0.1, 0.05)
    assert rtt.rto_s == pytest.approx(0.3)


def test_second_sample() -> None:
    """RTTVAR is updated with the SRTT from before the sample (2.3)."""
    rtt = RttEstimator()
    rtt.sample(np.array([0.1]))
    rtt.sample(np.array([0.2]))
    assert rtt.rttvar_s == pytest.approx(0.75 * 0.05 + 0.25 * 0.1)
    assert rtt.srtt_s == pytest.approx(0.875 * 0.1 + 0.125 * 0.2)
    assert rtt.rto_s == pytest.approx(rtt.srtt_s + 4 * rtt.rttvar_s)


def test_a_batch_is_its_slowest_packet() -> None:
    """Packets of a batch wait for each other in queues: the last one is what must not time out."""
    one, batch = RttEstimator(), RttEstimator()
    one.sample(np.array([0.05]))
    batch.sample(np.array([0.01, 0.05, 0.03]))
    assert one == batch


def test_nothing_measured_changes_nothing() -> None:
    """An empty batch is no sample."""
    rtt = RttEstimator()
    rtt.sample(np.zeros(0))
    assert rtt == RttEstimator()


def test_back_off_doubles_up_to_the_limit() -> None:
    """The RTO doubles and stays at its maximum."""
    rtt = RttEstimator(rto_s=0.3)
    seen = []
    for _ in range(5):
        rtt.back_off()
        seen.append(rtt.rto_s)
    assert seen == pytest.approx([0.6, 1.2, 2.0, 2.0, 2.0])


def test_a_sample_ends_the_back_off() -> None:
    """A fresh measurement replaces a backed-off RTO."""
    rtt = RttEstimator()
    for _ in range(5):
        rtt.back_off()
    rtt.sample(np.array([0.01]))
    assert rtt.rto_s == pytest.approx(rtt.min_rto_s)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.none(), st.lists(seconds, min_size=1, max_size=4)), max_size=30))
def test_rto_stays_within_its_limits(events: list[list[float] | None]) -> None:
    """Whatever is measured and backed off, the RTO is between its limits and above SRTT."""
    rtt = RttEstimator()
    for event in events:
        if event is None:
            rtt.back_off()
        else:
            rtt.sample(np.array(event))
            assert rtt.rto_s >= min(rtt.srtt_s or 0.0, rtt.max_rto_s)
        assert rtt.min_rto_s <= rtt.rto_s <= rtt.max_rto_s
