"""Max-min fair rates against linear programs, and iterations against times known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from planner.errors import PlanError
from planner.topology.direct import Direct, expander
from planner.topology.fabrics import Fabric, Oversubscribed, Switched, link_loads
from planner.topology.finder import AllReduceDemand, Demand, FinderOptions, find_topology
from planner.topology.fluid import simulate
from planner.topology.maxmin import Uses, max_min_rates
from planner.topology.taskgraph import Task, TaskGraph, Transfer, read_task_graph
from planner.topology.topology import Topology
from tests.topoopt_data import task_graph

GBIT = 1e9
MB = 1e6


def lp_rates(matrix: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Max-min fair rates by linear programs: raise the lowest, fix those that cannot rise."""
    flows = matrix.shape[1]
    fixed = np.full(flows, np.nan)
    while np.isnan(fixed).any():
        open_ = np.isnan(fixed)
        at_least = np.column_stack([-np.eye(flows)[open_], np.ones(open_.sum())])
        above = np.vstack([np.column_stack([matrix, np.zeros(len(matrix))]), at_least])
        bounds = [(None if np.isnan(x) else x, None if np.isnan(x) else x) for x in fixed]
        limits = np.concatenate([capacity, np.zeros(open_.sum())])
        best = linprog([*[0] * flows, -1], above, limits, bounds=[*bounds, (0, None)])
        level = -best.fun
        bounds = [(level, None) if np.isnan(x) else (x, x) for x in fixed]
        for flow in np.flatnonzero(open_):
            aim = np.zeros(flows)
            aim[flow] = -1
            if -linprog(aim, matrix, capacity, bounds=bounds).fun <= level * (1 + 1e-7) + 1e-9:
                fixed[flow] = level
    return fixed


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=40, deadline=None)
def test_rates_are_those_of_linear_programs(links: int, flows: int, seed: int) -> None:
    """Random links, coefficients of one and more, and flows of one link at least."""
    random = np.random.default_rng(seed)
    matrix = random.integers(1, 3, (links, flows)) * (random.random((links, flows)) < 0.5)
    matrix[random.integers(links, size=flows), np.arange(flows)] = 1
    capacity = random.integers(1, 10, links).astype(float)
    flow, link = np.nonzero(matrix.T)
    uses = Uses(
        np.concatenate([[0], np.cumsum(np.bincount(flow, minlength=flows))]),
        link,
        matrix[link, flow].astype(float),
    )
    np.testing.assert_allclose(max_min_rates(uses, capacity), lp_rates(matrix, capacity), rtol=1e-6)


def concurrent_ms(topology: Topology, rate_bps: float, transfers: list[Transfer]) -> float:
    """The least time of transfers over any paths: a linear program of multi-commodity flow."""
    links = list(topology.links)
    incidence = np.zeros((topology.servers, len(links)))
    for column, (a, b) in enumerate(links):
        incidence[a, column], incidence[b, column] = 1, -1
    kinds, count = len(transfers), len(links)
    balance = np.kron(np.eye(kinds), incidence)
    sources = np.zeros((kinds, topology.servers))
    for row, transfer in zip(sources, transfers, strict=True):
        row[transfer.source] += transfer.size_bytes
        row[transfer.to] -= transfer.size_bytes
    share = np.tile(np.eye(count), kinds)
    capacity = np.array(list(topology.links.values())) * rate_bps / 8000
    found = linprog(
        [*[0] * (kinds * count), 1],
        A_ub=np.column_stack([share, -capacity]),
        b_ub=np.zeros(count),
        A_eq=np.column_stack([balance, np.zeros(balance.shape[0])]),
        b_eq=sources.ravel(),
    )
    return float(found.fun)


@given(st.integers(4, 8), st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=25, deadline=None)
def test_no_faster_than_the_best_of_all_routings(servers: int, seed: int) -> None:
    """Transfers that start together take at least the time of the linear program."""
    random = np.random.default_rng(seed)
    matrix = random.random((servers, servers)) * (random.random((servers, servers)) < 0.4)
    matrix[0, 1] = 1
    np.fill_diagonal(matrix, 0)
    ring = AllReduceDemand(tuple(range(servers)), 1.0)
    topology = find_topology(Demand(servers, (ring,), matrix), FinderOptions(3))
    transfers = [Transfer(a, b, matrix[a, b] * MB) for a, b in np.argwhere(matrix).tolist()]
    graph = TaskGraph.build(servers, [Task(0, None, each) for each in transfers])
    took = simulate(graph, Direct(topology, GBIT)).iteration_ms
    least = concurrent_ms(topology, GBIT, transfers)
    assert least * (1 - 1e-6) <= took <= 8 * least


def test_as_fast_as_the_best_of_all_routings() -> None:
    """On a ring of four both ways, with two paths, the two ways round share what is opposite."""
    topology = find_topology(Demand.allreduce_only(4), FinderOptions(2))
    transfers = [Transfer(0, 2, MB), Transfer(2, 0, MB)]
    graph = TaskGraph.build(4, [Task(0, None, each) for each in transfers])
    took = simulate(graph, Direct(topology, GBIT)).iteration_ms
    assert took == pytest.approx(4.0)
    assert took == pytest.approx(concurrent_ms(topology, GBIT, transfers))


@pytest.mark.parametrize(("degree", "rings"), [(2, 2), (4, 4)])
def test_rings_divide_the_time_of_an_allreduce(degree: int, rings: int) -> None:
    """2 (N − 1) / N · S / (P · rate); as fast as a switch with the rate of all interfaces."""
    members = tuple(range(16))
    graph = TaskGraph.build(16, [Task(1.5, None, AllReduceDemand(members, 10 * MB))])
    topology = find_topology(Demand.allreduce_only(16), FinderOptions(degree))
    expected = 1.5 + 2 * 15 / 16 * 80 / rings
    assert simulate(graph, Direct(topology, GBIT)).iteration_ms == pytest.approx(expected)
    switched = simulate(graph, Switched(16, degree * GBIT))
    assert switched.iteration_ms == pytest.approx(expected)
    assert switched.link_bytes == pytest.approx(np.full(32, 2 * 15 / 16 * 10 * MB))


def test_a_shared_link_then_its_own() -> None:
    """Two transfers share a sender for 2 ms each of 1 MB; the longer one then has it alone."""
    tasks = [Task(0, None, Transfer(0, 1, 0.125 * MB)), Task(0, None, Transfer(0, 2, 0.25 * MB))]
    outcome = simulate(TaskGraph.build(3, tasks), Switched(3, GBIT))
    assert outcome.end_ms == pytest.approx([2.0, 3.0])


def test_a_device_computes_one_task_at_a_time() -> None:
    """First come, first served; what waits for a message starts when it has arrived."""
    tasks = [
        Task(2.0, 0, None, (2,)),
        Task(3.0, 0),
        Task(0.0, None, Transfer(0, 1, 0.125 * MB), (3,)),
        Task(1.0, 1),
        Task(0.5, 1, None, ()),
    ]
    outcome = simulate(TaskGraph.build(2, tasks), Switched(2, GBIT))
    assert outcome.start_ms == pytest.approx([0, 2, 2, 3, 0])
    assert outcome.end_ms == pytest.approx([2, 5, 3, 4, 0.5])
    assert outcome.iteration_ms == pytest.approx(5)


def test_messages_that_need_no_network() -> None:
    """Of one member, to oneself, of no bytes: they end at once."""
    messages = [AllReduceDemand((1,), MB), Transfer(1, 1, MB), Transfer(0, 1, 0)]
    tasks = [Task(0, None, each, (3,)) for each in messages]
    outcome = simulate(TaskGraph.build(2, [*tasks, Task(1, 0)]), Switched(2, GBIT))
    assert outcome.iteration_ms == pytest.approx(1)


def test_racks_share_a_narrow_way_out() -> None:
    """Two servers send to the other rack at half of their rate; within a rack at all of it."""
    network = Oversubscribed(4, GBIT, rack=2)
    across = [Transfer(0, 2, 0.125 * MB), Transfer(1, 3, 0.125 * MB)]
    graph = TaskGraph.build(4, [Task(0, None, each) for each in across])
    assert simulate(graph, network).iteration_ms == pytest.approx(2)
    graph = TaskGraph.build(4, [Task(0, None, Transfer(0, 1, 0.125 * MB))])
    assert simulate(graph, network).iteration_ms == pytest.approx(1)


def random_graph(servers: int, seed: int) -> TaskGraph:
    """Computations and messages in layers, each waiting for some of the layer before."""
    random = np.random.default_rng(seed)
    tasks: list[Task] = []
    later: list[int] = []
    for _ in range(4):
        layer = []
        for server in range(servers):
            layer.append(Task(float(random.integers(1, 4)), server, None, tuple(later)))
        group = tuple(random.permutation(servers)[: random.integers(1, servers + 1)].tolist())
        layer.append(Task(0.25, None, AllReduceDemand(group, MB), tuple(later[:1])))
        a, b = random.integers(servers, size=2).tolist()
        layer.append(Task(0.0, None, Transfer(a, b, MB), tuple(later[1:3])))
        later = list(range(len(tasks), len(tasks) + len(layer)))
        tasks += layer
    return TaskGraph.build(servers, tasks)


def fabrics_of(servers: int, graph: TaskGraph) -> list[Fabric]:
    """One of each kind."""
    topology = find_topology(graph.demand, FinderOptions(4))
    return [
        Switched(servers, GBIT),
        Oversubscribed(servers, GBIT, rack=3),
        Direct(topology, GBIT),
        expander(servers, 4, GBIT),
    ]


@given(st.integers(5, 9), st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=15, deadline=None)
def test_what_holds_for_every_iteration(servers: int, seed: int) -> None:
    """Bytes arrive, order is kept, devices do one thing, nothing is faster than its limits."""
    graph = random_graph(servers, seed)
    for fabric in fabrics_of(servers, graph):
        outcome = simulate(graph, fabric)
        loads = link_loads(fabric, graph.messages)
        np.testing.assert_allclose(outcome.link_bytes, loads, rtol=1e-6, atol=1)
        for task in range(len(graph.device)):
            following = graph.after(np.array([task]))
            assert (outcome.start_ms[following] >= outcome.end_ms[task] - 1e-9).all()
        for device in range(servers):
            mine = np.flatnonzero(graph.device == device)
            order = mine[np.argsort(outcome.start_ms[mine])]
            assert (outcome.start_ms[order[1:]] >= outcome.end_ms[order[:-1]] - 1e-9).all()
        assert outcome.iteration_ms >= graph.compute_ms() - 1e-9
        assert outcome.iteration_ms >= (loads / fabric.capacity).max() - 1e-6
        coarse = simulate(graph, fabric, resolution_ms=0.01)
        assert coarse.iteration_ms == pytest.approx(outcome.iteration_ms, abs=0.1)


@pytest.mark.parametrize(
    ("name", "known_ms", "within"),
    [("vgg", 210.40, 0.03), ("bert", 63.97, 0.03), ("dlrm", 61.16, 0.07), ("candle", 512.88, 0.15)],
)
def test_known_iterations(name: str, known_ms: float, within: float) -> None:
    """The authors' packet simulator on an ideal switch, 16 servers at 100 Gbit/s."""
    graph = read_task_graph(task_graph(f"{name}_16servers_100g"))
    outcome = simulate(graph, Switched(16, 100 * GBIT))
    assert outcome.iteration_ms == pytest.approx(known_ms, rel=within)


def test_networks_of_another_size() -> None:
    """They are refused with both sizes."""
    graph = TaskGraph.build(2, [Task(1, 0)])
    with pytest.raises(PlanError, match="2 servers on a network of 3"):
        simulate(graph, Switched(3, GBIT))


@pytest.mark.parametrize(("servers", "degree"), [(4, 1), (4, 4), (5, 3)])
def test_expanders_that_cannot_be(servers: int, degree: int) -> None:
    """Too few links, too many, and an odd number of ends."""
    with pytest.raises(PlanError, match="expander"):
        expander(servers, degree, GBIT)
