"""Puts the slices that servers answer a pull with back into the order of the keys."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_stack.kv.errors import KVProtocolError, KVUsageError
from host_stack.kv.ids import describe, rank_of
from host_stack.kv.message import LEN_DTYPE, Array, KeyArray, KVPairs, Message
from host_stack.kv.ranges import same_keys


class PullCollector:
    """The result of one pull, filled slice by slice.

    With `vals_out` each slice is copied to its place as it comes; without it, slices are kept
    as they were received and joined at the end (not even copied if one server has all keys).
    """

    def __init__(
        self,
        keys: KeyArray,
        dtype: np.dtype[Any],
        positions: NDArray[np.int64],
        vals_out: Array | None,
    ) -> None:
        """Expect slice keys[positions[i]:positions[i + 1]] from server i, values of `dtype`."""
        self._keys = keys
        self._dtype = dtype
        self._positions = positions
        self._vals_out = vals_out
        self._flat_out: Array | None = None
        self._per_key = 0
        if vals_out is not None:
            _check_out(keys, dtype, vals_out)
            self._flat_out = vals_out.reshape(-1)
            self._per_key = vals_out.size // max(keys.size, 1)

    def take(self, message: Message, without_keys: bool = False) -> KVPairs | None:
        """Check a server's answer; keep it, or copy it into `vals_out` and keep nothing."""
        if not message.meta.pull or len(message.data) not in (2, 3):
            raise KVProtocolError(f"{_who(message)} answered a pull without keys and values")
        rank = rank_of(message.peer or 0)
        begin, end = int(self._positions[rank]), int(self._positions[rank + 1])
        keys, vals, *rest = message.data
        asked = self._keys[begin:end]
        if not same_keys(keys, asked[:0] if without_keys else asked):
            raise KVProtocolError(f"{_who(message)} answered a pull with keys it was not asked for")
        if vals.dtype != self._dtype:
            raise KVProtocolError(
                f"{_who(message)} sent values of {vals.dtype}, {self._dtype} was asked for"
            )
        lens = rest[0] if rest else None
        _check_value_count(message, asked, vals, lens)
        if self._flat_out is None:
            return KVPairs(asked, vals, lens)
        self._fill(message, begin, end, vals, lens)
        return None

    def _fill(
        self, message: Message, begin: int, end: int, vals: Array, lens: Array | None
    ) -> None:
        assert self._flat_out is not None  # noqa: S101 - the only caller has checked it
        wanted = (end - begin) * self._per_key
        if vals.size != wanted or (lens is not None and (lens != self._per_key).any()):
            raise KVProtocolError(
                f"{_who(message)} sent {vals.size} values for {end - begin} keys; vals_out has "
                f"room for {self._per_key} each"
            )
        self._flat_out[begin * self._per_key : end * self._per_key] = vals

    def result(self, answers: dict[int, KVPairs]) -> KVPairs:
        """All slices as one, in the order of the keys."""
        if self._vals_out is not None:
            return KVPairs(self._keys, self._vals_out)
        parts = [answers[peer] for peer in sorted(answers)]
        if not parts:
            return KVPairs(self._keys, np.empty(0, self._dtype))
        if len(parts) == 1:
            return KVPairs(self._keys, parts[0].vals, parts[0].lens)
        lens = [part.lens for part in parts if part.lens is not None]
        if lens and len(lens) != len(parts):
            raise KVProtocolError("some servers answered a pull with lens and some without")
        vals = np.concatenate([part.vals for part in parts])
        return KVPairs(self._keys, vals, np.concatenate(lens) if lens else None)


def _who(message: Message) -> str:
    return describe(message.peer or 0)


def _check_out(keys: KeyArray, dtype: np.dtype[Any], vals_out: Array) -> None:
    """Refuse an output array that slices cannot be copied into by position."""
    if not vals_out.flags.c_contiguous or not vals_out.flags.writeable:
        raise KVUsageError("vals_out must be contiguous and writeable")
    if vals_out.dtype != dtype:
        raise KVUsageError(f"vals_out is {vals_out.dtype}, the values are {dtype}")
    if vals_out.size % max(keys.size, 1) or (vals_out.size and not keys.size):
        raise KVUsageError(
            f"vals_out has {vals_out.size} places for {keys.size} keys; it needs the same number "
            "for every key"
        )


def _check_value_count(message: Message, keys: Array, vals: Array, lens: Array | None) -> None:
    if lens is None:
        fits = vals.size % max(keys.size, 1) == 0
    else:
        fits = (
            lens.dtype == LEN_DTYPE
            and lens.size == keys.size
            and not (lens < 0).any()
            and int(lens.sum(dtype=np.int64)) == vals.size
        )
    if not fits:
        raise KVProtocolError(f"{_who(message)} sent {vals.size} values that do not fit its keys")
