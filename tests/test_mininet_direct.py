"""Direct-connect networks: their routes, their traffic, and the real thing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mininet_topos.direct_host import allreduce, tcp_counters, vector
from mininet_topos.direct_routes import Routing, route
from mininet_topos.direct_run import DirectOptions
from mininet_topos.direct_traffic import (
    PAYLOAD_SHARE,
    queueing_s,
    scaled,
    shape_of,
    told,
    window_bytes,
)
from mininet_topos.errors import BadTopology, EmulationError
from mininet_topos.namespace import run_isolated
from mininet_topos.tools import NETWORK_TOOLS, require_tools
from planner.topology.finder import AllReduceDemand, Demand, FinderOptions, find_topology
from planner.topology.plan_file import PlanFile


def plan_of(servers: int, degree: int, seed: int = 0, *, both_ways: bool = True) -> PlanFile:
    """A plan for an AllReduce of all, one of a half, and some transfers."""
    random = np.random.default_rng(seed)
    matrix = random.random((servers, servers)) * (random.random((servers, servers)) < 0.3) * 1e5
    matrix[0, servers // 2] = 1e5
    np.fill_diagonal(matrix, 0)
    everyone = AllReduceDemand(tuple(range(servers)), 2e5)
    half = AllReduceDemand(tuple(range(0, servers, 2)), 1e5)
    demand = Demand(servers, (everyone, half, everyone), matrix)
    topology = find_topology(demand, FinderOptions(degree, both_ways=both_ways))
    return PlanFile("test", topology, 1e9, demand, 2)


def follow(routing: Routing, address: str, source: int) -> list[int]:
    """Where packets to an address go, host by host, by next hops alone."""
    found = [each for each in routing.routes.values() if each.address == address]
    hops = {a: b for each in found for a, b in pairwise(each.servers)}
    way = [source]
    while way[-1] in hops:
        way.append(hops[way[-1]])
        assert len(way) <= 64
    return way


@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 100), st.booleans())
@settings(derandomize=True, max_examples=20, deadline=None)
def test_every_route_leads_where_it_should(
    servers: int, degree: int, seed: int, both_ways: bool
) -> None:
    """Each address has one owner and one next hop a host, over cables that are there."""
    plan = plan_of(servers, degree, seed, both_ways=both_ways)
    routing = route(plan)
    addresses = [each.address for each in routing.routes.values()]
    assert len(set(addresses)) == len(addresses)
    for each in routing.routes.values():
        assert follow(routing, each.address, each.servers[0]) == list(each.servers)
        for (a, b), cable in zip(pairwise(each.servers), each.cables, strict=True):
            assert set(routing.cables[cable]) == {a, b}
    for ring in routing.rings:
        for a, b in pairwise([*ring.order, ring.order[0]]):
            to, source = routing.there_and_back(ring.kind, a, b)
            assert follow(routing, to, a)[-1] == b
            assert follow(routing, source, b)[-1] == a


def test_rings_of_all_have_cables_of_their_own() -> None:
    """Four rings over the 32 cables of ±1, ±5: one each way on each."""
    demand = Demand.allreduce_only(16)
    plan = PlanFile("test", find_topology(demand, FinderOptions(4)), 1e9, demand, 2)
    routing = route(plan)
    used = [
        (routing.routes[ring.kind, a, b].cables, a)
        for ring in routing.rings
        for a, b in pairwise([*ring.order, ring.order[0]])
    ]
    assert len(set(used)) == len(used) == 64


def test_every_byte_is_told() -> None:
    """What is sent along a route is received; rings have all members; sizes are the plan's."""
    plan = plan_of(6, 4)
    routing = route(plan)
    traffic = scaled(plan, routing, 1e7, 2.0)
    tasks = told(routing, traffic, 6, seed=1, rate_bps=1e7)
    sends = {s["label"]: s["size_bytes"] for each in tasks for s in each["sends"]}
    receives = {r["label"]: r["size_bytes"] for each in tasks for r in each["receives"]}
    assert sends == receives
    assert sum(sends.values()) == pytest.approx(
        plan.demand.transfers.sum() * traffic.scale, rel=0.01
    )
    reduced = 4 * sum(r["values"] for r in tasks[0]["rings"])
    assert reduced == pytest.approx(5e5 * traffic.scale, rel=0.01)
    rings, last = traffic.simulated_s(plan, 1e7)
    assert max(*rings, last) == pytest.approx(2.0, rel=0.01)
    assert 0.9 < PAYLOAD_SHARE < 1


def test_queues_hold_all_windows() -> None:
    """Nothing is lost to a full queue, at any rate; a transfer waits for what is ahead of it."""
    routing = route(plan_of(8, 4))
    connections = [(ring.kind, a, b) for ring in routing.rings for a, b in hops_of(ring.order)]
    connections += [(kind, *pair) for pair, kinds in routing.transfers.items() for kind in kinds]
    sharing = Counter(
        (cable, at)
        for each in connections
        for cable, at in zip(
            routing.routes[each].cables, routing.routes[each].servers[:-1], strict=True
        )
    )
    for rate_mbps in (1.0, 20.0, 500.0):
        shape, window = shape_of(routing, rate_mbps), window_bytes(rate_mbps * 1e6)
        assert window >= 8 * 1448
        assert shape.limit_bytes >= max(sharing.values()) * window
        waits = queueing_s(routing, rate_mbps * 1e6)
        assert 0 < waits <= 7 * max(sharing.values()) * window * 8e-6 / rate_mbps


def hops_of(order: tuple[int, ...]) -> list[tuple[int, int]]:
    """Every member of a ring with the next."""
    return list(pairwise([*order, order[0]]))


def test_counters_of_tcp() -> None:
    """By the names of the first line, among those of other protocols."""
    text = "Ip: Forwarding\nIp: 1\nTcp: OutSegs RetransSegs\nTcp: 12 3\nUdp: InErrors\nUdp: 0\n"
    assert tcp_counters(text) == {"OutSegs": 12, "RetransSegs": 3}


@given(st.integers(2, 6), st.one_of(st.integers(6, 200), st.integers(20_000, 40_000)))
@settings(derandomize=True, max_examples=10, deadline=None)
def test_a_ring_sums(members: int, values: int) -> None:
    """Over socket pairs: every member ends with the sum of all vectors, exactly.

    Pieces are shorter than a chunk that is handed on, or longer.
    """
    pairs = [socket.socketpair() for _ in range(members)]
    vectors = [vector(member, values, seed=3) for member in range(members)]
    expected = sum(each.copy() for each in vectors)
    threads = [
        threading.Thread(
            target=allreduce,
            args=(vectors[i], i, members, pairs[i][1], pairs[(i + 1) % members][0]),
        )
        for i in range(members)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for end in (end for pair in pairs for end in pair):
        end.close()
    assert all(np.array_equal(each, expected) for each in vectors)


def test_what_is_refused() -> None:
    """Too many servers, too long a run, no traffic, vectors that are too large."""
    with pytest.raises(BadTopology, match="2 to 64"):
        route(
            PlanFile(
                "test", find_topology(d := Demand.allreduce_only(65), FinderOptions(2)), 1e9, d, 1
            )
        )
    with pytest.raises(BadTopology, match=r"0\.1 to 600"):
        DirectOptions(Path("topo.json"), seconds=0.0)
    silent = Demand(4, (), np.zeros((4, 4)))
    plan = PlanFile("silent", find_topology(silent, FinderOptions(2)), 1e9, silent, 1)
    with pytest.raises(BadTopology, match="no traffic"):
        scaled(plan, route(plan), 1e7, 1.0)
    plan = plan_of(4, 2)
    with pytest.raises(BadTopology, match="MiB"):
        scaled(plan, route(plan), 1e10, 600.0)


@pytest.mark.root
@pytest.mark.mininet
def test_a_planned_topology_for_real(tmp_path: Path) -> None:
    """`libra run --topo`: rings, and transfers that hosts forward; all sums are right."""
    try:
        require_tools(*NETWORK_TOOLS)
        run_isolated(["true"])
    except EmulationError as error:
        pytest.skip(str(error))
    topo, found = tmp_path / "topo.json", tmp_path / "run.json"
    plan = plan_of(5, 3)
    plan.write(topo)
    argv = [sys.executable, "-m", "controller.cli", "run", "--topo", str(topo)]
    argv += ["--topo-seconds", "0.5", "--link-mbps", "10", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*argv, "--json", str(found)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(found.read_text())
    assert summary["sums_checked"]
    assert summary["servers"] == 5
    assert summary["segments"] > summary["segments_sent_again"] >= 0
    assert len(summary["allreduces"]) == 2
    assert summary["transfers"]["count"] == np.count_nonzero(plan.demand.transfers)
    assert any(len(each.servers) > 2 for each in route(plan).routes.values())
    # Bytes cannot pass faster than their links let them.
    assert summary["measured_s"] > 0.8 * summary["simulated_s"]
