"""Link shapes: token bucket parameters and their limits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos.errors import BadTopology
from mininet_topos.shaping import FRAME_BYTES, QUEUE_MIN_BYTES, LinkShape, tc_batch


def test_tc_line_of_a_fast_link_has_a_millisecond_of_bucket():
    """At 1 Gbit/s the bucket is 1 ms of the rate and the queue 100 ms of it."""
    assert LinkShape(1000).tc_line("s1-eth1") == (
        "qdisc replace dev s1-eth1 root tbf rate 1000000000bit burst 125000 limit 12500000"
    )


def test_slow_link_holds_two_frames_and_the_least_queue():
    """At 1 Mbit/s a millisecond would hold no frame: the floors apply."""
    shape = LinkShape(1)
    assert shape.burst_bytes == 2 * FRAME_BYTES
    assert shape.limit_bytes == QUEUE_MIN_BYTES


def test_batch_has_a_line_for_each_interface():
    """`tc -batch` takes one command a line."""
    lines = tc_batch(dict.fromkeys(["a0", "b0"], LinkShape(10))).splitlines()
    assert [line.split()[3] for line in lines] == ["a0", "b0"]


@settings(derandomize=True)
@given(rate=st.floats(0.1, 100_000), queue=st.floats(1, 10_000))
def test_every_allowed_shape_fits_the_kernel(rate: float, queue: float):
    """Numbers are whole, the bucket passes a frame, and the limit fits tc's 32 bits."""
    shape = LinkShape(rate, queue)
    assert shape.rate_bps >= 100_000
    assert 2 * FRAME_BYTES <= shape.burst_bytes <= max(2 * FRAME_BYTES, rate * 125 + 1)
    assert QUEUE_MIN_BYTES <= shape.limit_bytes < 2**32


@pytest.mark.parametrize("rate", [0, -1, 0.05, 1e6, math.inf, math.nan])
def test_bad_rate_is_refused_with_what_is_allowed(rate: float):
    """The error names the value and the range."""
    with pytest.raises(BadTopology, match=r"link rate .* Mbit/s: allowed is 0.1 to 100000"):
        LinkShape(rate)


@pytest.mark.parametrize("queue", [0, -3, math.nan, 1e9])
def test_bad_queue_is_refused(queue: float):
    """A queue without bound or without room is refused."""
    with pytest.raises(BadTopology, match="link queue"):
        LinkShape(10, queue)
