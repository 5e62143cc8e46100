"""Byte strings: canonical out, liberal in, never out of range."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.p4runtime import values
from softswitch.p4runtime.errors import P4RuntimeError


@settings(derandomize=True)
@given(value=st.integers(0, 2**130), padding=st.integers(0, 3))
def test_unsigned_round_trip(value: int, padding: int) -> None:
    """Encoding is the shortest form; leading zeros are accepted back."""
    data = values.encode(value)
    assert len(data) == max(1, -(-value.bit_length() // 8))
    width = max(1, value.bit_length())
    assert values.decode(bytes(padding) + data, width, "x") == value
    if value > 1:
        with pytest.raises(P4RuntimeError) as caught:
            values.decode(data, width - 1, "x")
        assert caught.value.code is grpc.StatusCode.OUT_OF_RANGE


@settings(derandomize=True)
@given(value=st.integers(-(2**70), 2**70), padding=st.integers(0, 3))
def test_signed_round_trip(value: int, padding: int) -> None:
    """Two's complement in the shortest form; sign extension is accepted back."""
    data = values.encode_signed(value)
    width = (value if value >= 0 else ~value).bit_length() + 1
    assert len(data) == -(-width // 8)
    extension = (b"\xff" if value < 0 else b"\x00") * padding
    assert values.decode_signed(extension + data, width, "x") == value
    if width > 1:
        with pytest.raises(P4RuntimeError):
            values.decode_signed(data, width - 1, "x")


@pytest.mark.parametrize(
    ("width", "data"),
    [(8, "0163"), (8, ""), (16, "010063"), (12, "1063"), (12, "010063"), (12, "004063")],
)
def test_invalid_examples_of_the_specification(width: int, data: str) -> None:
    """The table of invalid unsigned strings in section "Bytestrings" is refused."""
    with pytest.raises(P4RuntimeError, match="port"):
        values.decode(bytes.fromhex(data), width, "port")


@pytest.mark.parametrize(("width", "data"), [(8, "009d"), (12, "8d1d"), (16, "")])
def test_invalid_signed_examples_of_the_specification(width: int, data: str) -> None:
    """The table of invalid signed strings is refused."""
    with pytest.raises(P4RuntimeError):
        values.decode_signed(bytes.fromhex(data), width, "x")
