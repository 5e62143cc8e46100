"""Paths of direct-connect topologies."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.topology.permutations import select_permutations, totient_perms
from planner.topology.routing import coin_change, coin_change_path, k_shortest_paths


@given(st.integers(2, 120), st.integers(1, 8), st.booleans())
@settings(derandomize=True, max_examples=60)
def test_coin_change_is_breadth_first_search(members: int, degree: int, both_ways: bool) -> None:
    """Every difference has as many steps as a shortest path of the circulant graph has hops."""
    strides = select_permutations(members, degree, totient_perms(members), both_ways=both_ways)
    steps = strides.directed(members)
    sums = coin_change(members, steps)
    graph = nx.DiGraph([(i, (i + p) % members) for i in range(members) for p in steps])
    hops = nx.single_source_shortest_path_length(graph, 0)
    for difference, taken in enumerate(sums):
        assert set(taken) <= set(steps)
        assert sum(taken) % members == difference
        assert len(taken) == hops[difference]


def test_a_path_names_servers() -> None:
    """Positions of the group become its members: 1 → 5 → 6 of 12 with steps ±1, ±5."""
    members = tuple(range(100, 112))
    assert coin_change_path(members, (1, 11, 5, 7), 0, 6) == (100, 101, 106)
    assert coin_change_path(members, (1, 11, 5, 7), 3, 3) == (103,)


def test_steps_that_do_not_reach_all() -> None:
    """Steps 2 and 4 leave the odd positions out."""
    with pytest.raises(PlanError, match="no sum"):
        coin_change(8, (2, 4))


def test_shortest_paths_come_first() -> None:
    """On a ring of five, both ways: one way round, then the other; there is no third."""
    graph = nx.cycle_graph(5).to_directed()
    assert k_shortest_paths(graph, 0, 2, 3) == [(0, 1, 2), (0, 4, 3, 2)]


def test_no_path_is_an_error() -> None:
    """Between two islands there is none, and no path at all cannot be asked for."""
    graph = nx.DiGraph([(0, 1), (1, 0), (2, 3), (3, 2)])
    with pytest.raises(PlanError, match="server 0 to server 3"):
        k_shortest_paths(graph, 0, 3, 2)
    with pytest.raises(PlanError, match="at least 1"):
        k_shortest_paths(graph, 0, 1, 0)
