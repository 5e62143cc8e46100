"""Links for model-parallel demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from planner.errors import PlanError
from planner.topology.matching import heaviest_pairs, match_rounds


def matchings(servers: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Every way to pair some of the servers."""
    if len(servers) < 2:
        yield []
        return
    first, *others = servers
    yield from matchings(others)
    for other in others:
        for rest in matchings([server for server in others if server != other]):
            yield [(first, other), *rest]


@given(st.integers(2, 8), st.data())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_matching_is_the_best_of_all(servers: int, data: st.DataObject) -> None:
    """The total weight is that of the best of all matchings, tried one by one."""
    drawn = data.draw(arrays(np.float64, (servers, servers), elements=st.integers(0, 50)))
    weights = drawn + drawn.T
    pairs = heaviest_pairs(weights)
    assert len({server for pair in pairs for server in pair}) == 2 * len(pairs)
    best = max(sum(weights[pair] for pair in each) for each in matchings(list(range(servers))))
    assert sum(weights[pair] for pair in pairs) == best


def test_discounts() -> None:
    """Three rounds for demands 8 and 3: half a time, or 1/2, 1/3, 1/4 of what it was."""
    demand = np.zeros((3, 3))
    demand[0, 1], demand[1, 2] = 8, 3
    # paper: 8, 4, then 2 against 3; artifact: 8, 4, then 8/3 against 3
    for mode in ("paper", "artifact"):
        assert Counter(match_rounds(demand, np.array([3, 3, 1]), mode)) == {(0, 1): 2, (1, 2): 1}
    demand[1, 2] = 2.5  # artifact: 8/3 is more than 2.5; paper: 2 is less
    assert Counter(match_rounds(demand, np.array([3, 3, 1]), "paper")) == {(0, 1): 2, (1, 2): 1}
    assert Counter(match_rounds(demand, np.array([3, 3, 1]), "artifact")) == {(0, 1): 3}


@given(st.integers(2, 10), st.integers(0, 5), st.data())
@settings(derandomize=True, max_examples=40, deadline=None)
def test_no_server_gets_more_links_than_it_has(
    servers: int, interfaces: int, data: st.DataObject
) -> None:
    """Rounds end with the interfaces, and nobody without demand gets a link."""
    demand = data.draw(arrays(np.float64, (servers, servers), elements=st.integers(0, 5)))
    links = Counter(server for pair in match_rounds(demand, interfaces) for server in pair)
    assert max(links.values(), default=0) <= interfaces
    np.fill_diagonal(demand, 0)
    silent = np.flatnonzero((demand + demand.T).sum(axis=0) == 0)
    assert not set(silent.tolist()) & set(links)


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.full((2, 2), -1.0), np.full((2, 2), np.nan)])
def test_what_is_no_traffic_matrix(bad: np.ndarray) -> None:
    """Not square, negative, not a number."""
    with pytest.raises(PlanError):
        match_rounds(bad, 1)


def test_an_unknown_mode() -> None:
    """It is refused with the known ones."""
    with pytest.raises(PlanError, match="paper, artifact"):
        match_rounds(np.zeros((2, 2)), 1, "guess")
