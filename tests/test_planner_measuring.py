"""Measured transports: real flows over loopback and over an emulated star."""

import pytest

from planner import measuring
from planner.errors import PlanError
from planner.measuring import Measurement, Point, measure
from tests.isolation import isolated


def test_loopback_carries_one_flow_and_several(monkeypatch: pytest.MonkeyPatch):
    """What the better of both reaches is the plateau of the transport."""
    monkeypatch.setattr(measuring, "SECONDS", 0.3)
    said: list[str] = []
    found = measure("loopback", [], 3, said.append)
    (point,) = found.points
    assert list(point.by_flows) == [1, 3]
    assert all(goodput > 1e6 for goodput in point.by_flows.values())
    transport = found.transport
    assert float(transport.goodput(point.best_bps / 2)) == pytest.approx(point.best_bps / 2)
    assert float(transport.goodput(point.best_bps * 10)) == pytest.approx(point.best_bps)
    assert "1 flow " in said[0]
    assert "3 flows " in said[0]


@isolated
def test_a_shaped_link_carries_nearly_its_rate():
    """Headers take some, a burst may bring some; a slow link keeps the processor out of it."""
    found = measure("star", [8e6], 2, lambda text: None)
    (point,) = found.points
    assert point.rate_bps == 8e6
    assert 0.5 * 8e6 < point.best_bps <= 8e6
    assert found.as_fields()["points"][0]["rate_bps"] == 8e6


def test_the_better_of_one_flow_and_many_counts():
    """At each rate."""
    points = [Point(1e9, {1: 0.5e9, 8: 0.9e9}), Point(2e9, {1: 1.5e9, 8: 1.2e9})]
    transport = Measurement("star", points).transport
    assert transport.goodput([1e9, 2e9]) == pytest.approx([0.9e9, 1.5e9])


@pytest.mark.parametrize(
    ("place", "rates", "flows", "message"),
    [
        ("moon", [1e9], 8, "unknown place 'moon'; known are loopback, star"),
        ("loopback", [1e9], 0, "--flows 0: allowed are 1 to 256"),
        ("star", [1e12], 8, "no emulated link can have these rates"),
    ],
)
def test_what_cannot_be_measured_is_refused(place, rates, flows, message):
    """Before anything is started."""
    with pytest.raises(PlanError, match=message):
        measure(place, rates, flows, print)
