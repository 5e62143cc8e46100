"""Numbers, names and orders as a reader sees them."""

import pytest

from mininet_topos import formats


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0.0, "0 µs"),
        (2.5e-6, "2.5 µs"),
        (0.00123456, "1.23 ms"),
        (0.9, "900 ms"),
        (1.0, "1 s"),
        (4321.0, "4,321 s"),
    ],
)
def test_seconds_choose_the_unit(value_s, text):
    """Three digits in the largest unit that leaves a whole part."""
    assert formats.seconds(value_s) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1_234_567, "B", "1.23 MB"),
        (5e12, "B", "5,000 GB"),
        (12_345, "", "12.3 k"),
        (7, "", "7"),
    ],
)
def test_si_chooses_the_prefix(value, unit, text):
    """Decimal prefixes, no unit where there is none."""
    assert formats.si(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0\u00a0%"), (0.8125, "81.2\u00a0%"), (1.04, "104\u00a0%")]
)
def test_percent_keeps_three_digits(share, text):
    """Shares of 1, also above it."""
    assert formats.percent(share) == text


def test_modes_and_links_have_their_usual_order():
    """Known modes first; the server's link first, then workers by number."""
    modes = formats.mode_order(["zeta", "fallback", "server-only", "alpha", "libra"])
    assert modes == ["libra", "server-only", "fallback", "alpha", "zeta"]
    links = formats.link_order(["worker10", "worker2", "aux", "server", "1", "worker"])
    assert links[0] == "server"
    assert links.index("worker2") < links.index("worker10")
    assert sorted(links) == sorted(["worker10", "worker2", "aux", "server", "1", "worker"])
