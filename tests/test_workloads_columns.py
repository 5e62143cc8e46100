"""Columns of lines, and integers in them, against Python's own reading."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.columns import integers, split

TAB = 9


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.text("ab-1", max_size=4), min_size=3, max_size=3), min_size=1, max_size=6
    )
)
def test_fields_are_those_of_split(rows: list[list[str]]) -> None:
    """Of every line, empty ones included."""
    text = "".join("\t".join(row) + "\n" for row in rows).encode()
    columns = split(text, TAB, 3)
    assert columns is not None
    for row, starts, lengths in zip(rows, columns.starts, columns.lengths, strict=True):
        found = [text[at : at + size].decode() for at, size in zip(starts, lengths, strict=True)]
        assert found == row
    letters = np.isin(np.arange(256), list(b"ab"))
    assert columns.inside(letters) == all(set(field) <= set("ab") for row in rows for field in row)


def test_another_number_of_columns() -> None:
    """In sum or in a line."""
    for text in (b"1\t2\n", b"1\t2\t3\t4\n5\t6\n", b"\n\n\n", b"1\n2\t3\t4\t5\n6\n"):
        assert split(text, TAB, 3) is None


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    fields=st.lists(
        st.one_of(st.integers(-(10**18) + 1, 10**18 - 1).map(str), st.text("-01 x", max_size=4)),
        min_size=1,
        max_size=8,
    )
)
def test_integers_are_those_of_python(fields: list[str]) -> None:
    """Or none of them is taken."""
    columns = split("".join(field + "\n" for field in fields).encode(), TAB, 1)
    assert columns is not None
    found = integers(columns)
    if all(field.removeprefix("-").isdigit() or not field for field in fields):
        assert found is not None
        assert found.ravel().tolist() == [int(field or "0") for field in fields]
    else:
        assert found is None
