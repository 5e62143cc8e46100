"""Methods of placing: every key a cell of its own, within the layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placing.methods import METHODS, NEED_DOCUMENTS, Data, place
from host_stack.errors import BadInput
from host_stack.layout import Layout

LAYOUT = Layout(lanes=8, rows=16, window=256, program=1)
DATA = Data([np.arange(200, dtype=np.uint64)], 1, 2, 1)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    method=st.sampled_from(sorted(METHODS)),
    hot=st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=60),
    documents=st.lists(st.sets(st.integers(0, 90), min_size=1), min_size=1, max_size=30),
    draws=st.integers(1, 4),
    data=st.data(),
)
def test_every_key_has_its_own_cells(
    method: str, hot: list[int], documents: list[set[int]], draws: int, data: st.DataObject
) -> None:
    """All keys are placed, and no two of all first and second cells are the same."""
    some = data.draw(st.sets(st.integers(0, 90), max_size=30))
    keys = np.array(sorted({*hot, *some}), np.uint64)
    sets = [np.array(sorted(each), np.uint64) for each in documents]
    layout = Layout(8, 64, 256, 1)  # a hash may put many keys in one lane
    placement = place(method, keys, layout, Data(sets, draws, 2, 1))
    assert sorted(placement.keys.tolist()) == keys.tolist()
    paired = int(np.isin(placement.rows, placement.pairs.rows).sum())
    assert int(placement.placed.sum()) == len(keys) + paired
    owners = placement.cell_index[placement.cell_index >= 0]
    assert np.bincount(owners, minlength=len(keys)).max(initial=0) <= 2


@pytest.mark.parametrize("method", sorted(METHODS))
def test_too_many_keys(method: str) -> None:
    """One key more than there are cells is refused with both numbers."""
    keys = np.arange(129, dtype=np.uint64)
    with pytest.raises(BadInput, match="129 hot keys do not fit: 8 lanes of 16 rows hold 128"):
        place(method, keys, LAYOUT, DATA)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"hash"}))
def test_a_full_switch(method: str) -> None:
    """Every cell may be taken; then no row is left for second cells."""
    placement = place(method, np.arange(128, dtype=np.uint64), LAYOUT, DATA)
    assert (placement.used_rows, len(placement), len(placement.pairs)) == (16, 128, 0)


def test_a_lane_that_overflows() -> None:
    """Hashes do not fill lanes evenly, and say so."""
    with pytest.raises(BadInput, match=r"a lane gets \d+ keys by their hashes, and has 16 rows"):
        place("hash", np.arange(128, dtype=np.uint64), LAYOUT, DATA)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_key_twice(method: str) -> None:
    """A hot set names a key once."""
    with pytest.raises(BadInput, match="a key is placed twice"):
        place(method, np.array([5, 7, 5], np.uint64), LAYOUT, DATA)


@pytest.mark.parametrize("method", NEED_DOCUMENTS)
def test_no_documents(method: str) -> None:
    """What keys meet must be known, unless there are none."""
    with pytest.raises(BadInput, match=f"method {method} needs a data set or a trace"):
        place(method, np.arange(3, dtype=np.uint64), LAYOUT, Data())
    assert len(place(method, np.zeros(0, np.uint64), LAYOUT, Data())) == 0


def test_unknown_methods() -> None:
    """What there is is named."""
    with pytest.raises(BadInput, match="unknown method 'best' of placing; known are hash, seq"):
        place("best", np.arange(3, dtype=np.uint64), LAYOUT, DATA)


def test_sequential_by_hand() -> None:
    """By number of the key, whatever its heat."""
    placement = place("sequential", np.array([30, 10, 20], np.uint64), LAYOUT, DATA)
    assert placement.keys.tolist() == [10, 20, 30]
    assert placement.lanes.tolist() == [0, 1, 2]
