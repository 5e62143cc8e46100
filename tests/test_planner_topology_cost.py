"""Prices, networks of equal cost, and networks of circuits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.prices import Prices
from planner.topology.baselines import FABRICS, Setting, make_fabric
from planner.topology.cost import COSTS, equal_cost_bps, fat_tree_usd
from planner.topology.finder import AllReduceDemand, Demand
from planner.topology.fluid import simulate
from planner.topology.reconfigurable import Reconfigurable
from planner.topology.taskgraph import Task, TaskGraph, Transfer

PRICES = Prices.load()
GBIT = 1e9
MB = 1e6


def test_a_fat_tree_by_hand() -> None:
    """At 100 Gbit/s: a NIC of 678, five ports of 187, six transceivers of 99."""
    assert fat_tree_usd(PRICES, 100e9) == 678 + 5 * 187 + 6 * 99
    assert COSTS["topoopt"](PRICES, 4, 100e9) == 4 * (678 + 99 + 100)
    assert COSTS["ideal"](PRICES, 4, 100e9) == 4 * fat_tree_usd(PRICES, 100e9)
    assert COSTS["ocs"](PRICES, 2, 25e9) == 2 * (185 + 39 + 520)


@given(st.sampled_from([4, 8]), st.sampled_from([10e9, 25e9, 40e9, 100e9, 200e9]))
@settings(derandomize=True)
def test_a_fat_tree_of_equal_cost(degree: int, rate_bps: float) -> None:
    """What it costs is what was to be spent."""
    usd = COSTS["topoopt"](PRICES, degree, rate_bps)
    assert fat_tree_usd(PRICES, equal_cost_bps(PRICES, usd)) == pytest.approx(usd)


def test_too_little_money() -> None:
    """It is refused with what the slowest costs."""
    with pytest.raises(PlanError, match="775"):
        equal_cost_bps(PRICES, 100)


def demand_of(servers: int) -> Demand:
    """An AllReduce of all, and a transfer."""
    matrix = np.zeros((servers, servers))
    matrix[0, servers // 2] = MB
    return Demand(servers, (AllReduceDemand(tuple(range(servers)), 10 * MB),), matrix)


@pytest.mark.parametrize("name", FABRICS)
def test_every_network_carries_everything(name: str) -> None:
    """An iteration ends on each, not before the bytes of the busiest server can have passed."""
    demand = demand_of(8)
    messages = [*demand.allreduces, Transfer(0, 4, MB)]
    graph = TaskGraph.build(8, [Task(1.0, None, each) for each in messages])
    setting = Setting(demand, 4, 10 * GBIT)
    outcome = simulate(graph, make_fabric(name, setting))
    if name == "fat-tree":
        least = 2 * 7 / 8 * 80 / (equal_cost_bps(PRICES, COSTS["topoopt"](PRICES, 4, 1e10)) / 1e9)
    else:
        least = 2 * 7 / 8 * 80 / 40
    assert outcome.iteration_ms >= least
    assert (outcome.end_ms > 1.0).all()


def test_circuits_follow_demand() -> None:
    """One interface: the heavier pair first, 10 ms of switching, 8 ms; then the lighter one."""
    transfers = [Transfer(0, 1, MB), Transfer(0, 2, MB / 2)]
    graph = TaskGraph.build(3, [Task(0, None, each) for each in transfers])
    network = Reconfigurable(3, 1, GBIT)
    ends = simulate(graph, network).end_ms
    # Looked at again 50 ms after the first look: 10 ms of switching, 4 ms of bytes
    assert ends == pytest.approx([18, 64])


def test_circuits_with_forwarding() -> None:
    """A ring keeps everyone reachable, so that nobody waits for the next look."""
    transfers = [Transfer(0, 1, MB), Transfer(0, 2, MB / 2), Transfer(0, 3, MB / 2)]
    graph = TaskGraph.build(4, [Task(0, None, each) for each in transfers])
    ends = simulate(graph, Reconfigurable(4, 2, GBIT, forwarding=True)).end_ms
    assert ends.max() < 50


def test_circuits_that_would_be_rewired_for_ever() -> None:
    """More bytes than circuits carry in a hundred thousand looks are refused, not simulated."""
    graph = TaskGraph.build(2, [Task(0, None, Transfer(0, 1, 1e300))])
    with pytest.raises(PlanError, match=r"ocs takes 8e\+291 s at least.*give less to send"):
        simulate(graph, Reconfigurable(2, 1, GBIT))


def test_an_unknown_network() -> None:
    """It is refused with the known ones."""
    with pytest.raises(PlanError, match="sip-ml"):
        make_fabric("guess", Setting(demand_of(4), 2, GBIT))
