"""Whole jobs in memory: the aggregate depends on the gradients alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from host_stack.aggregator import SoftwareAggregator
from host_stack.connect import worker_node
from host_stack.exponents import advise
from host_stack.hot_path import HotPath
from host_stack.job import Job
from host_stack.kv.errors import KVTimeout
from host_stack.kv.worker import KVWorker
from host_stack.layout import Layout
from host_stack.placement import Keys, Placement, heat_based
from host_stack.transport import Received
from tests.job_in_memory import (
    GROUP,
    LAYOUT,
    SERVER,
    MemoryJob,
    Push,
    addresses,
    make_job,
    ports,
    random_pushes,
    run_job,
    two_cells,
)
from tests.memory_network import Faults, MemoryNetwork, MemoryTransport

NUM_KEYS = 3000
F = 40


def expected(pushes: list[list[Push]], fraction_bits: int = F) -> np.ndarray:
    """The model after all rounds, computed without any network."""
    aggregator = SoftwareAggregator(NUM_KEYS, fraction_bits)
    parameters = np.zeros(NUM_KEYS, np.float32)
    for row in pushes:
        for rank, (keys, gradients) in enumerate(row):
            aggregator.add(rank, keys.astype(np.int64), gradients)
        keys, sums = aggregator.take()
        parameters[keys] += sums
    return parameters


def direct(workers: int, faults: Faults | None = None):
    """A network without a switch."""

    def make(_job: Job, _placement: Placement) -> MemoryNetwork:
        return MemoryNetwork(ports(workers), GROUP, addresses(workers), faults=faults)

    return make


@pytest.mark.parametrize("place", [heat_based, two_cells])
@pytest.mark.parametrize("hot", [0, 700, NUM_KEYS])
def test_fallback_equals_reference(hot: int, place: Callable[[Keys, Layout], Placement]) -> None:
    """Without a switch, hot packets reach the server and are summed there, same bits."""
    pushes = random_pushes(3, 4, NUM_KEYS, 900, seed=1)
    outcome = run_job(pushes, NUM_KEYS, hot, direct(3), F, place)
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    for replica in outcome.replicas:
        assert replica.tobytes() == outcome.parameters[:hot].tobytes()


def test_escapes_keep_the_bits() -> None:
    """Gradients that do not fit in fixed point are summed in the order of ranks."""
    pushes = random_pushes(3, 3, NUM_KEYS, 900, seed=2, wild=0.01)
    outcome = run_job(pushes, NUM_KEYS, 700, direct(3), F)
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.counters["escaped_gradients"] > 0


def test_faulty_network_keeps_the_bits() -> None:
    """Loss, duplication and reordering change nothing but the time."""
    faults = Faults(loss=0.05, duplication=0.05, reordering=0.05, seed=3)
    pushes = random_pushes(3, 3, NUM_KEYS, 900, seed=3)
    outcome = run_job(pushes, NUM_KEYS, 700, direct(3, faults), F)
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.retransmissions > 0
    assert outcome.counters["fallback_duplicate"] > 0


@pytest.mark.parametrize("rounds_between", [0, 1])
def test_a_cold_push_that_comes_twice_counts_once(
    rounds_between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and when its round is committed; the server answers the first kind again."""
    pushes = random_pushes(2, 3, NUM_KEYS, 900, seed=5, wild=0.01)
    push = KVWorker.push
    sent: dict[tuple[int, int], tuple[Any, ...]] = {}

    def push_again(self: KVWorker, keys: Keys, values: Any, cmd: int, priority: int) -> int:
        sent[id(self), priority] = keys, values, None, cmd, None, priority
        again = sent.get((id(self), priority - rounds_between))
        if again is not None:
            push(self, *again)
        return push(self, keys, values, cmd=cmd, priority=priority)

    monkeypatch.setattr(KVWorker, "push", push_again)
    outcome = run_job(pushes, NUM_KEYS, 700, direct(2), F)
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    counter, least = (("repeated_push", 6), ("stale_push", 4))[rounds_between]
    assert outcome.counters[counter] >= least
    assert outcome.counters["cold_keys"] == sum(len(keys) for keys, *_ in sent.values()) > 0


@pytest.mark.parametrize(("fraction_bits", "fits"), [(F, True), (70, False)])
def test_a_scale_is_judged_by_the_gradients(fraction_bits: int, fits: bool) -> None:
    """One that is far too fine changes no sum but those of escapes; the server's report says so."""
    pushes = random_pushes(3, 3, NUM_KEYS, 900, seed=4)
    job = MemoryJob(pushes, NUM_KEYS, 700, direct(3), fraction_bits)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes, fraction_bits).tobytes()
    standing = job.controller.standing
    assert standing is not None
    assert (standing.round, standing.gradients) == (3, 3 * 3 * 900)
    assert standing.escaped == outcome.counters["escaped_gradients"]
    assert (standing.escaped == 0) == fits
    advice = advise(standing.exponents, fraction_bits)
    assert advice is not None
    assert (advice.better is None) == fits
    if advice.better is not None:
        again = MemoryJob(pushes, NUM_KEYS, 700, direct(3), advice.better).run()
        assert again.counters["escaped_gradients"] == 0


def test_an_update_that_opens_a_round_stands_for_no_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The UPDATEs of all rows are lost, and one without cells comes: rows are fetched, all of them.

    `MemoryJob.run` looks at what workers find where they compute a step.
    """
    multicast = HotPath._multicast

    def opening(self: HotPath, round_: int, _rows: Any, mask: Any, values: Any) -> None:
        multicast(self, round_, np.zeros(1, np.int64), mask[:1] & False, values[:1] * 0)

    monkeypatch.setattr(HotPath, "_multicast", opening)
    pushes = random_pushes(2, 3, NUM_KEYS, 900, seed=10)
    outcome = run_job(pushes, NUM_KEYS, 700, direct(2), F)
    rows = -(-700 // LAYOUT.lanes)
    assert [times.fetched_rows for times in outcome.times[0]] == [rows] * 3


def test_a_flood_leaves_time_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datagrams of strangers that never end at the server hold up neither pushes nor rounds."""
    pushes = random_pushes(2, 3, NUM_KEYS, 200, seed=9)
    receive = MemoryTransport.receive

    def flooded(self: MemoryTransport) -> Received:
        if self.address == SERVER:
            self.put(addresses(2)[0], b"foreign")
        return receive(self)

    monkeypatch.setattr(MemoryTransport, "receive", flooded)
    outcome = run_job(pushes, NUM_KEYS, 700, direct(2), F)
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()


def test_nodes_wait_for_each_other_as_long_as_for_a_commit() -> None:
    """Here for a scheduler that is not there."""
    patience = {"push": 1.0, "drain": 1.0, "commit": 0.25}
    job = replace(make_job(1, NUM_KEYS, F, scheduler_port=9), timeouts_s=patience)
    node = worker_node(job, addresses(1)[0])
    with pytest.raises(KVTimeout, match=r"0\.25 s"):
        node.start()
    node.close()
