"""Layouts and tags."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput, LayoutMismatch
from host_stack.layout import MAX_EPOCH, MAX_ROUND, TAG_ROUNDS, Layout, make_tag, split_tag
from tests.host_support import LAYOUT


def test_cells() -> None:
    """Cells of one bank."""
    assert LAYOUT.cells == 32 * 8192


def test_fields_round_trip() -> None:
    """A layout in JSON is read as it was written."""
    assert Layout.from_fields(json.loads(json.dumps(asdict(LAYOUT)))) == LAYOUT


@pytest.mark.parametrize(
    "fields",
    [
        None,
        3,
        [32, 8192, 256, 1],
        {},
        {"lanes": 32},
        asdict(LAYOUT) | {"banks": 2},
        asdict(LAYOUT) | {"lanes": "32"},
        asdict(LAYOUT) | {"lanes": 32.0},
        asdict(LAYOUT) | {"program": True},
        asdict(LAYOUT) | {"rows": None},
        asdict(LAYOUT) | {"rows": [8192]},
    ],
)
def test_what_describes_no_layout(fields: object) -> None:
    """Anything else is refused."""
    with pytest.raises(BadInput, match="layout"):
        Layout.from_fields(fields)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("lanes", 0, "8, 16, 32, 64"),
        ("lanes", 33, "8, 16, 32, 64"),
        ("lanes", 128, "8, 16, 32, 64"),
        ("rows", 0, "powers of two up to 32768"),
        ("rows", -8, "powers of two up to 32768"),
        ("rows", 8191, "powers of two up to 32768"),
        ("rows", 65536, "powers of two up to 32768"),
        ("window", 0, "powers of two up to 32768"),
        ("window", 100, "powers of two up to 32768"),
        ("program", -1, "0 to 65535"),
        ("program", 65536, "0 to 65535"),
    ],
)
def test_sizes_that_no_packet_can_carry(field: str, value: int, allowed: str) -> None:
    """Each size has its limits, which the error names beside the value."""
    with pytest.raises(BadInput) as caught:
        replace(LAYOUT, **{field: value})
    assert str(value) in str(caught.value)
    assert allowed in str(caught.value)


def test_require_accepts_the_same_layout() -> None:
    """An equal layout is no mismatch."""
    LAYOUT.require(Layout(32, 8192, 256, 1), "the switch")


@pytest.mark.parametrize(
    "changed", [{"lanes": 64}, {"rows": 4096}, {"window": 128}, {"program": 2}]
)
def test_require_names_both_values(changed: dict[str, Any]) -> None:
    """A mismatch says what differs, both values and where the other one is."""
    (name, theirs), mine = next(iter(changed.items())), asdict(LAYOUT)
    with pytest.raises(LayoutMismatch) as caught:
        LAYOUT.require(replace(LAYOUT, **changed), "switch 10.0.0.254")
    assert str(caught.value) == f"{name} is {mine[name]} here and {theirs} at switch 10.0.0.254"


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    epoch=st.integers(1, MAX_EPOCH),
    first=st.integers(0, MAX_ROUND),
    ahead=st.integers(0, TAG_ROUNDS - 1),
)
def test_tags(epoch: int, first: int, ahead: int) -> None:
    """Epoch in the upper 12 bits, in the lower 20 those of a round; the epoch has the others."""
    round_ = first - first % TAG_ROUNDS + ahead
    tag = make_tag(epoch, round_)
    assert tag == epoch * 2**20 + ahead < 2**32
    assert split_tag(tag, first) == (epoch, round_)


@pytest.mark.parametrize(
    ("epoch", "round_", "message"),
    [
        (0, 0, "epoch 0: allowed are 1 to 4095"),
        (4096, 0, "epoch 4096: allowed are 1 to 4095"),
        (1, -1, "round -1: allowed are 0 to 1073741822"),
        (1, (1 << 30) - 1, "round 1073741823: allowed are 0 to 1073741822"),
    ],
)
def test_tags_out_of_range(epoch: int, round_: int, message: str) -> None:
    """No number runs over into its neighbour."""
    with pytest.raises(BadInput, match=message):
        make_tag(epoch, round_)
