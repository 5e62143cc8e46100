"""Paths of direct-connect topologies."""

from __future__ import annotations

from itertools import islice, pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.topology.permutations import select_permutations, totient_perms
from planner.topology.routing import ShortestPaths, coin_change, coin_change_path


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
    paths = ShortestPaths(nx.cycle_graph(5).to_directed())
    assert paths.paths(0, 2, 3) == [(0, 1, 2), (0, 4, 3, 2)]
    assert ShortestPaths(nx.cycle_graph(9).to_directed()).paths(0, 2, 2)[1][:2] == (0, 8)


@given(st.integers(4, 12), st.integers(1, 6), st.integers(0, 1000))
@settings(derandomize=True, max_examples=40, deadline=None)
def test_as_many_hops_as_networkx_finds(servers: int, k: int, seed: int) -> None:
    """Loop-free, over links, none twice, and as long as those of networkx's search."""
    graph = nx.gnp_random_graph(servers, 0.4, seed=seed, directed=True)
    graph.add_edges_from((i, (i + 1) % servers) for i in range(servers))
    expected = [len(path) for path in islice(nx.shortest_simple_paths(graph, 0, 2), k)]
    paths = ShortestPaths(graph).paths(0, 2, k)
    assert [len(path) for path in paths] == expected
    assert len(set(paths)) == len(paths)
    assert all(len(set(path)) == len(path) for path in paths)
    assert all(graph.has_edge(*hop) for path in paths for hop in pairwise(path))


def test_no_path_is_an_error() -> None:
    """Between two islands there is none, and no path at all cannot be asked for."""
    paths = ShortestPaths(nx.DiGraph([(0, 1), (1, 0), (2, 3), (3, 2)]))
    with pytest.raises(PlanError, match="server 0 to server 3"):
        paths.paths(0, 3, 2)
    with pytest.raises(PlanError, match="at least 1"):
        paths.paths(0, 1, 0)
