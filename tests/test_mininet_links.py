"""Link counters: differences and what tc reports."""

import json

import pytest

from mininet_topos.links import (
    QUIET_BYTES,
    Direction,
    LinkCounters,
    are_quiet,
    difference,
    parse_drops,
)


def test_difference_is_taken_per_host_and_direction():
    """Each counter is subtracted from its own."""
    earlier = {"w0": LinkCounters(Direction(1, 100, 0), Direction(2, 200, 1))}
    later = {"w0": LinkCounters(Direction(5, 700, 3), Direction(2, 200, 2))}
    assert difference(later, earlier) == {
        "w0": LinkCounters(Direction(4, 600, 3), Direction(0, 0, 1))
    }


def test_links_are_quiet_while_none_carries_more_than_a_frame():
    """Each way of each link by itself."""
    earlier = {("w0", "rx_bytes"): 100, ("w0", "tx_bytes"): 0, ("ps0", "tx_bytes"): 7}
    frames = {way: count + QUIET_BYTES for way, count in earlier.items()}
    assert are_quiet(earlier, frames)
    for way in earlier:
        assert not are_quiet(earlier, {**frames, way: frames[way] + 1})


def test_drops_add_up_over_the_queues_of_an_interface():
    """A shaper and a queue below it may both drop."""
    listing = [
        {"kind": "tbf", "dev": "s1-eth1", "drops": 3},
        {"kind": "bfifo", "dev": "s1-eth1", "drops": 2},
        {"kind": "noqueue", "dev": "lo", "drops": 0},
    ]
    assert parse_drops(json.dumps(listing)) == {"s1-eth1": 5, "lo": 0}


def test_listing_without_interface_names_is_not_taken_for_no_drops():
    """`tc` omits the name when asked for one interface; that must not count as zero."""
    with pytest.raises(KeyError):
        parse_drops('[{"kind": "tbf", "drops": 3}]')
