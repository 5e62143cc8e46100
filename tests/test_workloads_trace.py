"""Traces of keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_stack.errors import BadInput
from workloads.trace import KeyTrace
from workloads.workload import Workload

PUSHES = [[1, 5, 7], [], [5, 7], [0], []]


def trace_of(pushes: list[list[int]]) -> KeyTrace:
    """A trace over keys 0 to 9."""
    return KeyTrace.of([np.array(keys, np.uint64) for keys in pushes], 10)


def test_pushes_come_back(tmp_path: Path) -> None:
    """One by one, from memory and from a file."""
    trace = trace_of(PUSHES)
    trace.save(tmp_path / "trace.npz")
    for each in (trace, KeyTrace.load(tmp_path / "trace.npz")):
        assert len(each) == 5
        assert [keys.tolist() for keys in each] == PUSHES
        assert each.num_keys == 10
    assert len(trace_of([])) == 0


@pytest.mark.parametrize(
    ("pushes", "message"),
    [([[1], [3, 2]], "do not rise"), ([[4, 4]], "do not rise"), ([[1, 10]], "key 10; allowed")],
)
def test_bad_pushes(pushes: list[list[int]], message: str) -> None:
    """Keys rise within a push, and are keys of the model."""
    with pytest.raises(BadInput, match=message):
        trace_of(pushes)


def test_bad_bounds() -> None:
    """Pushes that do not fit the keys."""
    around = [0, 2**63 - 1, -(2**63), -1, 2]  # whose differences overflow to positive ones
    for indptr in ([0, 1], [0, 3, 2], [1, 2], [], around):
        with pytest.raises(BadInput, match="bounds of pushes"):
            KeyTrace(np.array(indptr, np.int64), np.arange(2, dtype=np.uint64), 10)


def test_another_file(tmp_path: Path) -> None:
    """What is no trace is refused, as is another schema."""
    path = tmp_path / "trace.npz"
    np.savez(path, schema=np.int64(2))
    with pytest.raises(BadInput, match="schema 2"):
        KeyTrace.load(path)
    np.savez(path, schema=np.int64(1), indptr=np.zeros(2))
    with pytest.raises(BadInput, match="not a trace of keys"):
        KeyTrace.load(path)


def test_parts_of_a_workload() -> None:
    """Training is the rounds in order; what is held out are whole batches of the test part."""
    workload = Workload.open(
        "synthetic:examples=800,features=300,nnz=6", "lr", seed=1, workers=3, batch_size=32
    )
    training = list(workload.training_keys())
    assert len(training) == 3 * workload.schedule.rounds_per_epoch
    np.testing.assert_array_equal(training[4], workload.keys(1, 1))
    held_out = list(workload.held_out_keys())
    assert len(held_out) == 80 // 32
    first, second = (np.concatenate(list(workload.held_out_keys())) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert set(first.tolist()) <= set(np.flatnonzero(workload.count_keys(workload.test)).tolist())
