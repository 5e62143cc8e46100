"""Which server owns which keys: equal slices of the key space, as ps-lite cuts them."""

import ctypes

import numpy as np
from numpy.typing import NDArray

from host_stack.kv.ascending import is_increasing
from host_stack.kv.errors import KVUsageError
from host_stack.kv.message import KEY_DTYPE, Array, KeyArray, require_array

MAX_KEY = 2**64 - 1

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def boundaries(num_servers: int) -> KeyArray:
    """First key of each server's slice, and the end of the last one: uint64 [num_servers + 1].

    The division is an integer one, so up to `num_servers` keys at the very top have no owner.
    """
    step = MAX_KEY // num_servers
    return np.array([step * rank for rank in range(num_servers + 1)], dtype=KEY_DTYPE)


def check_keys(keys: KeyArray) -> None:
    """Refuse keys that are not one dimension of strictly increasing uint64."""
    require_array("keys", keys)
    if keys.dtype != KEY_DTYPE or keys.ndim != 1:
        raise KVUsageError(
            f"keys must be a uint64 array of one dimension, {keys.dtype} {keys.shape} was given"
        )
    if not is_increasing(keys):
        where = int(np.argmax(keys[1:] <= keys[:-1]))
        raise KVUsageError(
            f"keys must be sorted and unique: key {keys[where + 1]} follows {keys[where]}; "
            "sort them and sum duplicates first"
        )


def same_keys(keys: Array, others: Array) -> bool:
    """Whether two arrays of one dimension hold the same numbers of the same type.

    As `np.array_equal`, without an array of truth values in between.
    """
    if keys.dtype != others.dtype or keys.size != others.size:
        return False
    if not (keys.flags.c_contiguous and others.flags.c_contiguous):
        return bool(np.array_equal(keys, others))
    return int(_memcmp(keys.ctypes.data, others.ctypes.data, keys.nbytes)) == 0


def slice_positions(keys: KeyArray, bounds: KeyArray) -> NDArray[np.int64]:
    """Where each server's slice of sorted keys begins: int64 [num_servers + 1].

    Server i gets keys[p[i]:p[i + 1]]. Raises KVUsageError for a key that no server owns.
    """
    if keys.size and keys[-1] >= bounds[-1]:
        raise KVUsageError(f"key {keys[-1]} has no owner: keys must be below {bounds[-1]}")
    return np.searchsorted(keys, bounds).astype(np.int64)
