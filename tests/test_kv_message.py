"""Arrays and frames."""

import numpy as np
import pytest

from host_stack.kv.errors import KVUsageError, WireError
from host_stack.kv.message import CODE_OF_DTYPE, arrays_from_frames, code_of, flat


@pytest.mark.parametrize("dtype", CODE_OF_DTYPE, ids=str)
def test_arrays_survive_the_frame(dtype: np.dtype) -> None:
    """Each dtype has a code and comes back from its bytes."""
    array = np.arange(5).astype(dtype)
    (back,) = arrays_from_frames([code_of(array)], [array.tobytes()])
    assert back.dtype == dtype
    assert np.array_equal(back, array)


def test_frames_are_shared_not_copied() -> None:
    """An aligned frame is viewed in place."""
    memory = np.arange(4, dtype=np.uint64)
    (view,) = arrays_from_frames([8], [memory.data])
    assert np.shares_memory(view, memory)


def test_unaligned_frames_are_realigned() -> None:
    """Handlers always get aligned arrays."""
    memory = np.zeros(33, np.uint8)
    (array,) = arrays_from_frames([8], [memory.data[1:]])
    assert array.flags.aligned
    assert array.size == 4


@pytest.mark.parametrize(
    ("codes", "frames"),
    [
        ([8], []),
        ([], [b""]),
        ([11], [b""]),
        ([0], [b""]),
        ([-1], [b""]),
        ([8], [b"1234567"]),
        ([9], [b"12345"]),
    ],
)
def test_frames_that_do_not_fit_are_refused(codes: list[int], frames: list[bytes]) -> None:
    """Counts, types and sizes must agree with the metadata."""
    with pytest.raises(WireError):
        arrays_from_frames(codes, frames)


def test_dtypes_without_a_code_are_refused() -> None:
    """Objects, complex numbers and foreign byte order cannot be sent."""
    for dtype in ("O", "c16", ">f4", "U3"):
        with pytest.raises(KVUsageError, match="convert to one of"):
            code_of(np.zeros(2, dtype))


def test_flat_copies_only_when_it_must() -> None:
    """A contiguous matrix is viewed, a strided one copied."""
    matrix = np.arange(12.0).reshape(3, 4)
    assert np.shares_memory(flat(matrix), matrix)
    assert flat(matrix[:, ::2]).tolist() == matrix[:, ::2].ravel().tolist()
