"""A message in memory: its metadata, its peer and its arrays, to and from ZeroMQ frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_stack.kv.errors import KVUsageError, WireError
from host_stack.kv.wire import Meta

Array = NDArray[Any]
"""Values of any type that ps-lite knows, of one dimension or more."""
KeyArray = NDArray[np.uint64]
"""uint64[n], sorted and unique where a request carries them."""
LenArray = NDArray[np.int32]
"""int32[n], how many values each key has."""

KEY_DTYPE = np.dtype("<u8")
LEN_DTYPE = np.dtype("<i4")

CODE_OF_DTYPE: dict[np.dtype[Any], int] = {
    np.dtype("<i1"): 1,
    np.dtype("<i2"): 2,
    np.dtype("<i4"): 3,
    np.dtype("<i8"): 4,
    np.dtype("<u1"): 5,
    np.dtype("<u2"): 6,
    np.dtype("<u4"): 7,
    np.dtype("<u8"): 8,
    np.dtype("<f4"): 9,
    np.dtype("<f8"): 10,
}
DTYPE_OF_CODE = {code: dtype for dtype, code in CODE_OF_DTYPE.items()}


@dataclass(frozen=True, slots=True)
class KVPairs:
    """Keys with their values.

    keys: uint64 [n], strictly increasing. vals: [n·k], k values for each key, or [sum(lens)].
    lens: int32 [n], the number of values of each key, or None where all have the same.
    """

    keys: KeyArray
    vals: Array
    lens: LenArray | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Metadata and arrays.

    Attributes:
        peer: the sender's id; None where it has none yet.
        connection: which of the sender's connections brought it: a number that another one does
            not have.
    """

    meta: Meta
    peer: int | None
    data: tuple[Array, ...] = field(default=())
    connection: int = 0


def require_array(name: str, value: Any) -> None:
    """Refuse what is no numpy array: a list would be guessed a type, which peers do not share."""
    if not isinstance(value, np.ndarray):
        raise KVUsageError(f"{name} must be a numpy array, {type(value).__name__} was given")


def code_of(array: Array) -> int:
    """ps-lite's number of an array's dtype; raises KVUsageError for one that it lacks."""
    code = CODE_OF_DTYPE.get(array.dtype)
    if code is None:
        allowed = ", ".join(dtype.name for dtype in CODE_OF_DTYPE)
        raise KVUsageError(f"dtype {array.dtype} cannot be sent; convert to one of {allowed}")
    return code


def flat(array: Array) -> Array:
    """View an array as one contiguous dimension, with a copy only where it is scattered."""
    return np.ascontiguousarray(array).reshape(-1)


def arrays_from_frames(codes: Sequence[int], frames: Sequence[Any]) -> tuple[Array, ...]:
    """View data frames as arrays of the announced dtypes.

    A frame's memory is shared, not copied, except where it lies unaligned in ZeroMQ's receive
    buffer, which happens to frames of a few kilobytes at most. Raises WireError on a mismatch.
    """
    if len(codes) != len(frames):
        raise WireError(f"metadata announces {len(codes)} data frames, {len(frames)} came")
    return tuple(_array(code, frame) for code, frame in zip(codes, frames, strict=True))


def _array(code: int, frame: Any) -> Array:
    dtype = DTYPE_OF_CODE.get(code)
    if dtype is None:
        raise WireError(f"data type {code} is not one of {sorted(DTYPE_OF_CODE)}")
    view = memoryview(frame)
    if view.nbytes % dtype.itemsize:
        raise WireError(f"a frame of {view.nbytes} bytes is not a whole number of {dtype.name}")
    array: Array = np.frombuffer(view, dtype=dtype)
    return array if array.flags.aligned else array.copy()
