"""Sparse examples, row sums and scattered sums against loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sparse_examples import make_examples
from workloads.errors import WorkloadError
from workloads.examples import Examples
from workloads.segments import row_sums, sums_by_index

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(lengths=LENGTHS, data=st.data())
@settings(derandomize=True, deadline=None)
def test_take_picks_whole_rows_in_order(lengths, data):
    """Each row taken equals the row it came from, empty rows and repeats included."""
    examples = make_examples(lengths)
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=20))
    taken = examples.take(np.array(rows, dtype=np.int64))
    taken.validate(9)
    assert len(taken) == len(rows)
    for i, row in enumerate(rows):
        got = slice(taken.indptr[i], taken.indptr[i + 1])
        source = slice(examples.indptr[row], examples.indptr[row + 1])
        assert taken.features[got].tolist() == examples.features[source].tolist()
        assert taken.values[got].tolist() == examples.values[source].tolist()
        assert taken.labels[i] == examples.labels[row]


@given(lengths=LENGTHS, width=st.integers(1, 3))
@settings(derandomize=True, deadline=None)
def test_row_sums_match_a_loop(lengths, width):
    """Sums of rows, with 0 for empty rows wherever they stand."""
    bounds = np.cumsum([0, *lengths]).astype(np.int64)
    terms = np.random.default_rng(1).normal(size=(bounds[-1], width))
    wanted = [terms[a:b].sum(axis=0) for a, b in itertools.pairwise(bounds)]
    np.testing.assert_allclose(row_sums(bounds, terms), np.array(wanted), atol=1e-12)


@given(index=st.lists(st.integers(0, 6), max_size=30), width=st.integers(1, 3))
@settings(derandomize=True, deadline=None)
def test_sums_by_index_match_a_loop(index, width):
    """Sums of equal indices, correctly rounded from float64 to the dtype of the terms."""
    terms = np.random.default_rng(2).normal(size=(len(index), width)).astype(np.float32)
    wanted = np.zeros((7, width))
    for i, at in enumerate(index):
        wanted[at] += terms[i]
    got = sums_by_index(np.array(index, dtype=np.int64), terms, 7)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.array([0, 9], dtype=np.int64)}, "allowed: 0 to 8"),
        ({"features": np.array([-1, 0], dtype=np.int64)}, "run from -1"),
        ({"indptr": np.array([0, 2, 1], dtype=np.int64)}, "do not rise"),
        ({"indptr": np.array([0, 2], dtype=np.int64)}, "do not fit together"),
        ({"values": np.array([1, np.nan], dtype=np.float32)}, "not a finite number"),
        ({"labels": np.zeros(2)}, "labels is float64"),
    ],
)
def test_validate_names_what_is_wrong(change, message):
    """Arrays from outside that contradict each other are refused."""
    fields = {
        "indptr": np.array([0, 1, 2], dtype=np.int64),
        "features": np.array([0, 8], dtype=np.int64),
        "values": np.ones(2, dtype=np.float32),
        "labels": np.zeros(2, dtype=np.float32),
    }
    Examples(**fields).validate(9)
    with pytest.raises(WorkloadError, match=message):
        Examples(**{**fields, **change}).validate(9)
