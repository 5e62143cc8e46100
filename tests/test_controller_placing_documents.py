"""Documents: where keys occur, which are hottest, and pushes made of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placing.documents import Documents, deal, example_keys, hottest
from host_stack.placement import Keys
from workloads.workload import Workload

KEY_SETS = st.lists(st.sets(st.integers(0, 12)), max_size=8)


def as_keys(keys: set[int]) -> Keys:
    """uint64 keys, ascending."""
    return np.array(sorted(keys), np.uint64)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(documents=KEY_SETS, hot=st.sets(st.integers(0, 15)))
def test_occurrences_are_those_of_the_documents(documents: list[set[int]], hot: set[int]) -> None:
    """Every hot key is listed with its documents, the most frequent first, ties by key."""
    found = Documents.of(as_keys(hot)[::-1], [as_keys(keys) for keys in documents])
    counts = {key: sum(key in keys for keys in documents) for key in hot}
    assert found.keys.tolist() == sorted(hot, key=lambda key: (-counts[key], key))
    assert found.total == len(documents)
    for at, key in enumerate(found.keys.tolist()):
        listed = found.documents[found.starts[at] : found.starts[at + 1]].tolist()
        assert listed == [number for number, keys in enumerate(documents) if key in keys]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(documents=KEY_SETS, count=st.integers(0, 15))
def test_hottest(documents: list[set[int]], count: int) -> None:
    """By number of documents, ties by key."""
    counts = {key: sum(key in keys for keys in documents) for key in set().union(*documents)}
    wanted = sorted(counts, key=lambda key: (-counts[key], key))[:count]
    assert hottest([as_keys(keys) for keys in documents], count).tolist() == wanted


def test_dealt_pushes() -> None:
    """Each push is the union of its documents, and all are used before one comes again."""
    documents = [as_keys({number, 100}) for number in range(10)]
    pushes = deal(documents, 4, 5, seed=3)
    assert [len(keys) for keys in pushes] == [5] * 5
    first = np.concatenate(pushes[:2])
    assert len(np.unique(first)) == 8 + 1
    assert [keys.tolist() for keys in deal(documents, 4, 5, seed=3)] == [k.tolist() for k in pushes]
    assert len(deal(documents, 99, 1, seed=3)[0]) == 11
    assert deal([], 4, 5, seed=3) == []


def test_keys_of_examples() -> None:
    """Single examples of a data set, no more than asked for."""
    spec = "synthetic:examples=200,features=90,nnz=5"
    workload = Workload.open(spec, "lr", seed=1, workers=2, batch_size=8)
    drawn = list(example_keys(workload.model, workload.train, 50, seed=1))
    assert len(drawn) == 50
    assert max(len(keys) for keys in drawn) <= 5 + 1
    assert len(list(example_keys(workload.model, workload.train, 10**6, seed=1))) == 180
