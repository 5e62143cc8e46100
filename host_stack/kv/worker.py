"""KVWorker: pushes values to the servers that own their keys, and pulls them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from host_stack.kv.app import SimpleApp, int32
from host_stack.kv.errors import KVProtocolError, KVUsageError
from host_stack.kv.ids import describe, server_id
from host_stack.kv.known import KeyCheck
from host_stack.kv.message import (
    LEN_DTYPE,
    Array,
    KeyArray,
    LenArray,
    Message,
    code_of,
    flat,
    require_array,
)
from host_stack.kv.pull import PullCollector
from host_stack.kv.ranges import boundaries, slice_positions
from host_stack.kv.requests import Callback
from host_stack.kv.sparing import Exchange, Sparing
from host_stack.kv.wire import Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node


class KVWorker(SimpleApp):
    """The worker's end of a key-value app.

    Arrays are neither copied when sent nor when received: keys and vals must stay unchanged,
    and vals_out untouched, until the request is complete (`wait`, `done` or the callback).
    That keys are sorted and unique is checked for each request; an array that stays read-only
    (`keys.flags.writeable = False`, no view) is checked once, if it is used again and again, and
    sent once to servers that keep it (`KVConfig.keep_keys_bytes`).
    A callback runs where messages are received and must not wait.
    """

    def __init__(
        self,
        node: "Node",
        app_id: int = 0,
        customer_id: int = 0,
        val_dtype: DTypeLike = np.float32,
    ) -> None:
        """Attach to a node; `val_dtype` is the type of values where no array says it."""
        super().__init__(node, app_id, customer_id)
        self._val_dtype = np.dtype(val_dtype)
        self._bounds = boundaries(node.config.num_servers)
        self._check_keys = KeyCheck()
        self._sparing = Sparing(node.config.keep_keys_bytes > 0)

    def push(
        self,
        keys: KeyArray,
        vals: Array,
        lens: LenArray | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Push values; return the timestamp to `wait` for (its result is None).

        keys: uint64 [n], sorted and unique. vals: n·k values, in the order of the keys, or
        sum(lens) of them with lens int32 [n]. cmd and priority are signed 32-bit numbers. Raises
        KVUsageError for what does not fit; `wait` raises KVRefused where a server does not take
        it, as that of a job does with keys that the job lacks.
        """
        meta = self._meta(cmd, priority, push=True)
        return self._send(meta, keys, vals, lens=lens, callback=callback)

    def pull(
        self,
        keys: KeyArray,
        vals_out: Array | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Pull values; `wait` returns them as KVPairs, in the order of the keys.

        With `vals_out` (contiguous, n·k values) they are written there; without it, `wait`
        returns new arrays, and lens too where the servers sent them. Raises as `push` does.
        """
        meta = self._meta(cmd, priority, pull=True)
        return self._send(meta, keys, None, vals_out=vals_out, callback=callback)

    def push_pull(
        self,
        keys: KeyArray,
        vals: Array,
        vals_out: Array | None = None,
        lens: LenArray | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Push values and pull the result in one message each way; see `push` and `pull`."""
        meta = self._meta(cmd, priority, push=True, pull=True)
        return self._send(meta, keys, vals, lens=lens, vals_out=vals_out, callback=callback)

    def peer_returned(self, peer: int) -> None:
        """Note that a server was started anew: it has none of the keys that it had."""
        super().peer_returned(peer)
        self._sparing.returned(peer)

    def _meta(self, cmd: int, priority: int, push: bool = False, pull: bool = False) -> Meta:
        return Meta(
            head=int32("cmd", cmd),
            request=True,
            push=push,
            pull=pull,
            app_id=self.app_id,
            customer_id=self.customer_id,
            priority=int32("priority", priority),
        )

    def _send(
        self,
        meta: Meta,
        keys: KeyArray,
        vals: Array | None,
        *,
        lens: LenArray | None = None,
        vals_out: Array | None = None,
        callback: Callback | None,
    ) -> int:
        """Cut keys and values into slices, one for each server, and send those with keys."""
        name = self._check_keys(keys)
        _check_kinds(meta.push, vals, vals_out, lens)
        if vals is None:
            vals = np.empty(0, self._val_dtype if vals_out is None else vals_out.dtype)
        vals = flat(vals)
        code_of(vals)
        positions = slice_positions(keys, self._bounds)
        offsets = _value_offsets(keys, vals, lens, positions) if meta.push else positions * 0
        ranks = np.flatnonzero(np.diff(positions)).tolist()
        collector = PullCollector(keys, vals.dtype, positions, vals_out) if meta.pull else None
        take = _check_push_response if collector is None else collector.take
        exchange = Exchange(self._sparing, name, take)
        timestamp = self._requests.open(
            _LABELS[meta.push, meta.pull],
            map(server_id, ranks),
            exchange.take,
            None if collector is None else collector.result,
            callback,
        )
        try:
            for rank in ranks:
                part = slice(positions[rank], positions[rank + 1])
                arrays: tuple[Array, ...] = (keys[part], vals[offsets[rank] : offsets[rank + 1]])
                if lens is not None:
                    arrays += (lens[part],)
                sent = meta._replace(timestamp=timestamp)
                self.node.send(server_id(rank), *exchange.spare(server_id(rank), sent, arrays))
        except Exception:
            self._requests.forget(timestamp)
            raise
        if not ranks:
            self._requests.settle_empty(timestamp)
        return timestamp


_LABELS = {(True, False): "push", (False, True): "pull", (True, True): "push_pull"}


def _check_kinds(
    pushes: bool, vals: Array | None, vals_out: Array | None, lens: LenArray | None
) -> None:
    """Refuse what is given and is no array; a push has values."""
    if pushes:
        require_array("vals", vals)
    for name, array in (("vals_out", vals_out), ("lens", lens)):
        if array is not None:
            require_array(name, array)


def _value_offsets(
    keys: KeyArray, vals: Array, lens: LenArray | None, positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where each server's values begin, given where its keys do: int64 [num_servers + 1]."""
    if lens is None:
        if vals.size % max(keys.size, 1) or (vals.size and not keys.size):
            raise KVUsageError(
                f"{vals.size} values for {keys.size} keys: without lens every key needs the same "
                "number of values"
            )
        return positions * (vals.size // max(keys.size, 1))
    if lens.dtype != LEN_DTYPE or lens.shape != keys.shape or (lens < 0).any():
        raise KVUsageError(
            f"lens must be {keys.size} int32 numbers, 0 or more; {lens.dtype} "
            f"{lens.shape} was given"
        )
    ends = np.concatenate(([0], np.cumsum(lens, dtype=np.int64)))
    if ends[-1] != vals.size:
        raise KVUsageError(f"lens add up to {ends[-1]}, but {vals.size} values were given")
    offsets: NDArray[np.int64] = ends[positions]
    return offsets


def _check_push_response(message: Message, without_keys: bool) -> None:
    del without_keys  # there are none
    if not message.meta.push or message.meta.pull or message.data:
        raise KVProtocolError(f"{describe(message.peer or 0)} answered a push with something else")
