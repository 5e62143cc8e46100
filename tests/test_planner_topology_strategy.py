"""Operators, placements and the task graphs of iterations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.direct import Direct
from planner.topology.estimate import Estimator
from planner.topology.fabrics import Switched
from planner.topology.finder import AllReduceDemand, FinderOptions, find_topology
from planner.topology.fluid import simulate
from planner.topology.iteration import iteration_graph
from planner.topology.operators import Operator, Workload, workload_of
from planner.topology.strategy import (
    STARTS,
    Strategy,
    as_fields,
    data_parallel,
    embeddings_apart,
    from_fields,
    operators_apart,
    owners,
    start,
)
from tests.planner_workloads import SMALL, job, workload

TWO = Workload(
    "two",
    4,
    (
        Operator("first", False, (), 1.0, 2.0, 1000.0, 4e6),
        Operator("second", False, (0,), 3.0, 6.0, 0.0, 8e6),
    ),
)


@pytest.mark.parametrize("name", SMALL)
def test_operators_keep_all_that_layers_have(name: str) -> None:
    """Parameters and times are those of the job; inputs are earlier operators."""
    described = job(SMALL[name])
    made = workload_of(described)
    parameters = sum(operator.parameter_bytes for operator in made.operators)
    assert parameters == described.model.parameter_bytes
    forward_s = sum(described.forward_s.values())
    assert made.compute_ms == pytest.approx(3e3 * forward_s)
    assert len(made.operators) <= len(described.model.layers)
    assert all(i < at for at, each in enumerate(made.operators) for i in each.inputs)


def test_a_measured_iteration_scales_the_times() -> None:
    """The sum of all times is what was measured."""
    measured = replace(job("vgg16"), iteration_s=0.25)
    assert workload_of(measured).compute_ms == pytest.approx(250)


def test_sparse_gradients_are_gathered() -> None:
    """G / 2 times the touched rows, whose ring moves (g − 1) times them; never more than all."""
    table = Operator("table", True, (), 0, 0, 8.0, 1e6, touched_bytes=100.0)
    assert table.reduced_bytes(4) == 200
    assert table.reduced_bytes(10**9) == 1e6
    assert replace(table, touched_bytes=0.0).reduced_bytes(4) == 1e6


@given(st.integers(1, 40), st.data())
@settings(derandomize=True, max_examples=40)
def test_every_block_has_an_owner(servers: int, data: st.DataObject) -> None:
    """Shares differ by one block at most, and with replicas everywhere blocks stay at home."""
    placement = tuple(sorted(data.draw(st.sets(st.integers(0, servers - 1), min_size=1))))
    owner = owners(placement, servers)
    shares = np.bincount(owner, minlength=servers)[list(placement)]
    assert shares.sum() == servers
    assert shares.max() - shares.min() <= 1
    assert owners(tuple(range(servers)), servers).tolist() == list(range(servers))


def test_a_data_parallel_iteration() -> None:
    """Forward, backward, and one AllReduce each: 12 ms of computing, the last 4 MB at its end."""
    graph = iteration_graph(TWO, data_parallel(TWO))
    assert graph.messages == (
        AllReduceDemand((0, 1, 2, 3), 4e6),
        AllReduceDemand((0, 1, 2, 3), 8e6),
    )
    outcome = simulate(graph, Switched(4, 1e12))
    # The gradient of the first operator is ready last: 2 · 3/4 · 4 MB at 1 Tbit/s
    assert outcome.iteration_ms == pytest.approx(12 + 0.048)


def test_an_iteration_with_operators_apart() -> None:
    """Server 0 computes all blocks of the first operator, server 2 all of the second."""
    strategy = Strategy(((0,), (2,)))
    graph = iteration_graph(TWO, strategy)
    assert graph.compute_ms() == 4 * 9
    assert graph.demand.transfers[0, 2] == graph.demand.transfers[2, 0] == 4000
    assert graph.demand.transfers.sum() == 8000
    # 4 kB each way at 1 Gbit/s: 0.032 ms
    outcome = simulate(graph, Switched(4, 1e9))
    assert outcome.iteration_ms == pytest.approx(4 * 12 + 2 * 0.032)


def test_an_iteration_with_a_part_of_the_servers() -> None:
    """Servers 0 and 2 compute two blocks each; what those of 1 and 3 need travels."""
    graph = iteration_graph(TWO, Strategy(((0, 2), (0, 1, 2, 3))))
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = expected[2, 3] = expected[3, 2] = 1000
    assert graph.demand.transfers.tolist() == expected.tolist()
    assert graph.compute_ms() == 2 * 3 + 9


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("strategy", STARTS)
def test_all_models_under_all_strategies(name: str, strategy: str) -> None:
    """Every task runs; computing is neither lost nor made; the estimate is not far off."""
    made = workload(name)
    chosen = start(strategy, made)
    graph = iteration_graph(made, chosen)
    total = graph.runtime_ms[graph.device >= 0].sum()
    assert total == pytest.approx(made.servers * made.compute_ms)
    topology = find_topology(graph.demand, FinderOptions(4))
    for fabric in (Switched(8, 4e10), Direct(topology, 1e10)):
        took = simulate(graph, fabric).iteration_ms
        assert np.isfinite(took)
        if strategy != "operators":  # where operators wait for each other, which it leaves out
            assert Estimator(made, fabric)(chosen) == pytest.approx(took, rel=0.75)


def test_tables_are_spread() -> None:
    """Six tables on eight servers, each on one of its own; sixty-four on eight, eight each."""
    made = workload("dlrm")
    places = [
        each
        for operator, each in zip(made.operators, embeddings_apart(made).placements, strict=True)
        if operator.is_table
    ]
    assert len(set(places)) == 6
    full = workload("dlrm:rows=1000")
    held = np.bincount([each[0] for each in embeddings_apart(full).placements if len(each) == 1])
    assert held.tolist() == [8] * 8


def test_operators_apart_share_the_work() -> None:
    """In the order of the forward pass, every server has some of it."""
    made = workload("resnet50")
    places = [each[0] for each in operators_apart(made).placements]
    assert places == sorted(places)
    assert set(places) == set(range(8))


def test_a_strategy_comes_back_from_a_file() -> None:
    """Also one in which some operators are on a part of the servers."""
    strategy = Strategy(((1, 3), (0, 1, 2, 3)))
    fields = as_fields(strategy, TWO)
    assert fields == {"first": [1, 3], "second": "all"}
    assert from_fields(JsonNode("s", fields, PlanError), TWO) == strategy


@pytest.mark.parametrize("placement", [(), (4,), (1, 0), (1, 1)])
def test_placements_that_are_none(placement: tuple[int, ...]) -> None:
    """No server, one that is not there, out of order, twice."""
    with pytest.raises(PlanError, match="operator first"):
        iteration_graph(TWO, Strategy((placement, (0,))))
    with pytest.raises(PlanError, match="1 operators"):
        iteration_graph(TWO, Strategy(((0,),)))


def test_an_unknown_strategy() -> None:
    """It is refused with the known ones."""
    with pytest.raises(PlanError, match="embeddings"):
        start("guess", TWO)
