"""JOIN, DONE, STATUS and their answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.control import Answer, Kind, Known, Request, bitmap_of, rows_of
from host_stack.errors import BadInput

words = st.integers(0, 2**32 - 1)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(data=st.data(), used_rows=st.integers(0, 70))
def test_bitmaps_come_back(data: st.DataObject, used_rows: int) -> None:
    """Rows come back ascending, whatever the order in which they were given."""
    rows = data.draw(
        st.lists(st.integers(0, used_rows - 1), unique=True) if used_rows else st.just([])
    )
    bitmap = bitmap_of(np.array(rows, np.int64), used_rows)
    assert len(bitmap) == (used_rows + 7) // 8
    assert rows_of(bitmap, used_rows).tolist() == sorted(rows)
    assert rows_of(bitmap, used_rows).dtype == np.int64


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    tag=words,
    version=words,
    step=words,
    committed=words,
    final=st.booleans(),
    gradients=words,
    sampled=st.binary(max_size=255),
    rows=st.binary(max_size=20),
)
def test_requests_come_back(**fields: Any) -> None:
    """What was encoded is decoded."""
    request = Request(**fields)
    assert Request.decode(request.encode()) == request


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    kind=st.sampled_from(Kind),
    tag=words,
    known=st.sampled_from([Known.NOTHING, Known.PUSH, Known.DONE, Known.PUSH | Known.DONE]),
    steps=words,
    committed=words,
    bitmaps=st.integers(0, 255),
    rows=st.binary(max_size=20),
    incarnation=st.binary(max_size=20),
)
def test_answers_come_back(**fields: Any) -> None:
    """What was encoded is decoded."""
    answer = Answer(**fields)
    assert Answer.decode(answer.encode()) == answer


def test_golden_bytes() -> None:
    """The format is pinned: network byte order; row i is bit i mod 8 of byte i div 8."""
    rows = bitmap_of(np.array([0, 9]), 10)
    request = Request(0x01020304, 5, 6, 7, True, 8, b"\x7f", rows)
    assert request.encode().hex() == "010203040000000500000006000000070100000008017f0102"
    answer = Answer(Kind.OPEN, 0x01020304, Known.PUSH, 6, 7, 1, rows, b"\xaa")
    assert answer.encode().hex() == ("03010102030400000006000000070100000001aa0102")
    assert [found.tolist() for found in answer.changed(10)] == [[0, 9]]


@pytest.mark.parametrize("body", [b"", bytes(21), bytes(16) + b"\2" + bytes(5), bytes(21) + b"\1"])
def test_bad_requests_are_refused(body: bytes) -> None:
    """A request that is cut, or with a flag that is none, is no request."""
    with pytest.raises(BadInput, match="a request "):
        Request.decode(body)


@pytest.mark.parametrize(
    "head",
    [
        "",
        "01" + "00" * 17,
        "00" * 19,
        "04" + "00" * 18,
        "0104" + "00" * 17,
        "02" + "00" * 17 + "01",
    ],
    ids=["empty", "short", "kind-0", "kind-4", "known-4", "incarnation-cut"],
)
def test_bad_answers_are_refused(head: str) -> None:
    """An answer that is cut, or says what no server says, is none."""
    body = bytes.fromhex(head)
    with pytest.raises(BadInput, match=f"an answer of {len(body)} bytes"):
        Answer.decode(body)


def test_rows_have_to_fit() -> None:
    """As many bitmaps as the answer announces, each of the placement's size."""
    with pytest.raises(BadInput, match="3 bytes of rows; 2 bitmaps of 2 are expected"):
        Answer(Kind.GO, 0, bitmaps=2, rows=bytes(3)).changed(10)


@pytest.mark.parametrize("length", [0, 1, 3, 100])
def test_bitmaps_of_a_wrong_length(length: int) -> None:
    """A bitmap that does not fit the placement is refused with both lengths."""
    with pytest.raises(BadInput, match=f"a bitmap of {length} bytes; 2 are expected"):
        rows_of(bytes(length), 10)


def test_bits_behind_the_last_row_name_no_row() -> None:
    """Padding that is set cannot make the server drain a row that does not exist."""
    assert rows_of(b"\xff\xff", 10).tolist() == list(range(10))
