"""DONE messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.control import RoundRows
from host_stack.errors import BadInput


@settings(max_examples=100, derandomize=True, deadline=None)
@given(data=st.data(), used_rows=st.integers(0, 70), round_=st.integers(0, 2**20 - 1))
def test_round_trip(data: st.DataObject, used_rows: int, round_: int) -> None:
    """Round and rows come back, rows ascending, whatever the order in which they were given."""
    rows = data.draw(
        st.lists(st.integers(0, used_rows - 1), unique=True) if used_rows else st.just([])
    )
    body = RoundRows(round_, np.array(rows, np.int64)).encode(used_rows)
    assert len(body) == 4 + (used_rows + 7) // 8
    decoded = RoundRows.decode(body, used_rows)
    assert decoded.round == round_
    assert decoded.rows.tolist() == sorted(rows)
    assert decoded.rows.dtype == np.int64


def test_golden_bytes() -> None:
    """The format is pinned: round in network byte order, row i is bit i mod 8 of byte i div 8."""
    assert RoundRows(0x01020304, np.array([0, 9])).encode(10).hex() == "010203040102"


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 7, 100])
def test_bodies_of_a_wrong_length(length: int) -> None:
    """A body that does not fit the placement is refused with both lengths."""
    with pytest.raises(BadInput, match=f"a DONE of {length} bytes; 6 are expected"):
        RoundRows.decode(bytes(length), 10)


def test_bits_behind_the_last_row_name_no_row() -> None:
    """Padding that is set cannot make the server drain a row that does not exist."""
    assert RoundRows.decode(b"\0\0\0\1" + b"\xff\xff", 10).rows.tolist() == list(range(10))
