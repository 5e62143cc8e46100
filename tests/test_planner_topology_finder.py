"""Topologies for a demand, and where its bytes go."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.topology.finder import (
    AllReduceDemand,
    Demand,
    FinderOptions,
    allreduce_interfaces,
    find_topology,
)
from planner.topology.loads import allreduce_matrix, ring_bytes, ring_time_s, traffic_matrix
from planner.topology.permutations import Strides
from planner.topology.topology import RingGroup, Topology


@pytest.mark.parametrize(
    ("servers", "degree", "steps", "diameter", "mean_hops"),
    [
        (12, 4, (1, 5), 3, 1.818),
        (16, 4, (1, 5), 4, 2.133),
        (16, 8, (1, 3, 5, 9), 2, 1.467),
    ],
)
def test_known_topologies(
    servers: int, degree: int, steps: tuple[int, ...], diameter: int, mean_hops: float
) -> None:
    """Steps with mirrors, diameter and mean hops; networkx's circulant graph is the same."""
    topology = find_topology(Demand.allreduce_only(servers), FinderOptions(degree))
    assert topology.groups[0].strides == Strides(both_ways=steps)
    distances = topology.distances()
    assert distances.diameter == diameter
    assert round(distances.mean_hops, 3) == mean_hops
    assert nx.utils.graphs_equal(
        nx.Graph(topology.graph.to_undirected().edges()),
        nx.Graph(nx.circulant_graph(servers, list(steps)).edges()),
    )
    assert len(topology.cables) == servers * degree // 2


def demand_of(servers: int, allreduce: float, transfers: float) -> Demand:
    """An AllReduce of all with this traffic in all, and as much again from server 0 to 1."""
    matrix = np.zeros((servers, servers))
    matrix[0, 1] = transfers
    size = allreduce / (2 * (servers - 1))
    return Demand(servers, (AllReduceDemand(tuple(range(servers)), size),), matrix)


@pytest.mark.parametrize(
    ("allreduce", "transfers", "interfaces"),
    [(1, 0, 4), (0, 1, 1), (3, 1, 3), (1, 3, 1), (51, 49, 3), (999, 1, 4)],
)
def test_interfaces_follow_traffic(allreduce: float, transfers: float, interfaces: int) -> None:
    """⌈d · share⌉, and one at least."""
    assert allreduce_interfaces(demand_of(6, allreduce, transfers), 4) == interfaces


def test_matched_links_beside_rings() -> None:
    """Two interfaces for a ring both ways; the pair with demand is linked until it has no more."""
    topology = find_topology(demand_of(6, 1, 1), FinderOptions(4))
    assert topology.groups[0].strides == Strides(both_ways=(1,))
    assert topology.pairs == ((0, 1), (0, 1))
    assert topology.links[0, 1] == 3
    assert topology.free_interfaces.tolist() == [0, 0, 2, 2, 2, 2]


def test_groups_share_in_proportion() -> None:
    """A half of the traffic among all, a quarter in each half: two interfaces, then two."""
    everyone = AllReduceDemand(tuple(range(8)), 1 / 14)
    halves = [AllReduceDemand(tuple(range(start, 8, 2)), 0.5 / 6) for start in (0, 1)]
    demand = Demand(8, (everyone, *halves), np.zeros((8, 8)))
    topology = find_topology(demand, FinderOptions(4, both_ways=False))
    assert [(group.members, group.interfaces) for group in topology.groups] == [
        (tuple(range(8)), 3),  # its two, and the one that rounding left to nobody
        ((0, 2, 4, 6), 1),
        ((1, 3, 5, 7), 1),
    ]


@given(st.integers(2, 14), st.integers(1, 6), st.booleans(), st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_every_topology_connects_within_its_interfaces(
    servers: int, degree: int, both_ways: bool, seed: int
) -> None:
    """Whatever the demand: everyone reaches everyone, and links in and out fit the interfaces."""
    random = np.random.default_rng(seed)
    matrix = random.random((servers, servers)) * (random.random((servers, servers)) < 0.5)
    groups = [
        AllReduceDemand(
            tuple(random.permutation(servers)[: random.integers(1, servers + 1)].tolist()),
            float(random.integers(0, 3)),
        )
        for _ in range(3)
    ]
    demand = Demand(servers, tuple(groups), matrix)
    topology = find_topology(demand, FinderOptions(degree, both_ways=both_ways))
    assert topology.distances().diameter >= 1
    for degrees in (topology.graph.out_degree, topology.graph.in_degree):
        assert max(count for _, count in degrees(weight="capacity")) <= degree


def test_cables_of_one_way_rings() -> None:
    """What is used one way only keeps its direction; opposite one-way links make a cable."""
    one_way = Topology(3, 1, (RingGroup((0, 1, 2), Strides(one_way=(1,))),))
    assert one_way.cables == [(0, 1), (1, 2), (2, 0)]
    pair = Topology(2, 1, (RingGroup((0, 1), Strides(one_way=(1,))),))
    assert pair.cables == [(0, 1)]


def test_a_topology_with_too_many_links() -> None:
    """It is refused with the server that has them."""
    with pytest.raises(PlanError, match="server 1 would have 2 links"):
        Topology(3, 1, pairs=((0, 1), (1, 2)))
    with pytest.raises(PlanError, match="servers are 0 to 2"):
        Topology(3, 1, pairs=((0, 3),))


def test_a_topology_in_parts() -> None:
    """It has no diameter."""
    with pytest.raises(PlanError, match="cannot reach"):
        Topology(4, 1, pairs=((0, 1), (2, 3))).distances()


def test_ring_allreduce_times() -> None:
    """2 (N − 1) / N · S / rate on one ring, a P-th of it on P rings, nothing for one member."""
    assert ring_time_s(1e9, 16, 100e9) == pytest.approx(2 * 15 / 16 * 8e9 / 100e9)
    assert ring_time_s(1e9, 16, 100e9, rings=4) == pytest.approx(2 * 15 / 16 * 2e9 / 100e9)
    assert ring_time_s(1e9, 1, 100e9) == 0


@given(st.integers(2, 30), st.integers(1, 6))
@settings(derandomize=True, max_examples=40)
def test_rings_share_evenly(members: int, degree: int) -> None:
    """Each link of P rings carries 2 (g − 1) S / (g P); all of them together 2 (g − 1) S."""
    topology = find_topology(Demand.allreduce_only(members), FinderOptions(degree))
    group = topology.groups[0]
    demand = AllReduceDemand(group.members, 1e6)
    matrix = allreduce_matrix(members, demand, group.steps)
    assert matrix.sum() == pytest.approx(demand.traffic_bytes)
    for (a, b), parallel in topology.links.items():
        assert matrix[a, b] == pytest.approx(parallel * ring_bytes(1e6, members, degree))


def test_traffic_before_and_after_permutation() -> None:
    """The same bytes in all; transfers stay where they are."""
    demand = demand_of(8, 100.0, 10.0)
    topology = find_topology(demand, FinderOptions(4))
    before, after = traffic_matrix(demand), traffic_matrix(demand, topology.groups)
    assert before.sum() == pytest.approx(110)
    assert after.sum() == pytest.approx(110)
    assert before[3, 4] == pytest.approx(100 / 8)
    assert before[0, 1] == pytest.approx(100 / 8 + 10)
    assert np.count_nonzero(after) > np.count_nonzero(before)


@pytest.mark.parametrize("members", [(), (0, 0), (0, 9)])
def test_members_out_of_range(members: tuple[int, ...]) -> None:
    """None, one twice, one that is not there."""
    with pytest.raises(PlanError):
        Demand(4, (AllReduceDemand(members, 1.0),), np.zeros((4, 4)))
