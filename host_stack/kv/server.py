"""KVServer: answers the pushes and pulls of all workers, now or later."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from host_stack.kv.app import SimpleApp
from host_stack.kv.errors import KVUsageError
from host_stack.kv.message import KEY_DTYPE, LEN_DTYPE, Array, KVPairs, Message
from host_stack.kv.ranges import is_increasing
from host_stack.kv.refusal import reason_body
from host_stack.kv.wire import Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node


@dataclass(slots=True)
class KVMeta:
    """A request as the server sees it; keep it to answer later (a held pull)."""

    cmd: int
    push: bool
    pull: bool
    sender: int
    timestamp: int
    customer_id: int
    priority: int
    answered: bool = field(default=False, compare=False)


RequestHandle = Callable[[KVMeta, KVPairs, "KVServer"], None]


class KVServer(SimpleApp):
    """The server's end of a key-value app.

    The handle gets arrays that share memory with the received frames, as long as it keeps
    them. Requests that are not valid (keys not increasing, values that do not fit) never reach
    it: they are counted in `rejected`, by reason, and refused.
    """

    def __init__(self, node: "Node", app_id: int = 0) -> None:
        """Attach to a node, before or after its `start`."""
        super().__init__(node, app_id, app_id)
        self.rejected: Counter[str] = Counter()
        self._handle: RequestHandle | None = None

    def set_request_handle(self, handle: RequestHandle) -> None:
        """Call `handle(meta, kvs, server)` for each push and pull.

        It must call `response` or `refuse`, at once or later from the same thread. Requests that
        come before a handle is set wait for it.
        """
        self._handle = handle
        self.node.handler_set()

    def response(self, meta: KVMeta, kvs: KVPairs | None = None) -> bool:
        """Answer a request, once: a push with nothing, a pull with its keys and their values.

        Arrays are not copied and must not be changed afterwards. Returns False (and counts
        `undeliverable`) if the worker takes no messages. Raises KVUsageError where the answer
        does not fit the request.
        """
        return self._respond(meta, self._answer(meta), _response_arrays(meta, kvs))

    def refuse(self, meta: KVMeta, reason: str) -> bool:
        """Answer a request, once: nothing of it counts, for `reason` (a line for people).

        The worker's `wait` raises KVRefused. Returns as `response` does.
        """
        answer = replace(self._answer(meta), pull=True, body=reason_body(reason))
        return self._respond(meta, answer)

    def _answer(self, meta: KVMeta) -> Meta:
        return Meta(
            head=meta.cmd,
            push=meta.push,
            pull=meta.pull,
            app_id=self.app_id,
            customer_id=meta.customer_id,
            timestamp=meta.timestamp,
        )

    def _accept_data(self, message: Message) -> bool:
        if self._handle is None:
            return False
        meta = message.meta
        request = KVMeta(
            meta.head,
            meta.push,
            meta.pull,
            message.peer or 0,
            meta.timestamp,
            meta.customer_id,
            meta.priority,
        )
        reason = _fault(message)
        if reason is not None:
            self.rejected[reason] += 1
            self.refuse(request, reason)
            return True
        self._handle(request, KVPairs(*message.data), self)
        return True


def _response_arrays(meta: KVMeta, kvs: KVPairs | None) -> tuple[Array, ...]:
    if not meta.pull:
        if kvs is not None:
            raise KVUsageError("a push is answered without keys and values")
        return ()
    if kvs is None or not kvs.keys.size or kvs.keys.dtype != KEY_DTYPE:
        raise KVUsageError("a pull is answered with its keys (uint64) and their values")
    if kvs.lens is None:
        if kvs.vals.size % kvs.keys.size:
            raise KVUsageError(
                f"{kvs.vals.size} values for {kvs.keys.size} keys: without lens every key needs "
                "the same number of values"
            )
        return kvs.keys, kvs.vals
    if not _lens_fit(kvs.keys, kvs.vals, kvs.lens):
        raise KVUsageError("lens must be int32, one for each key, and add up to the values")
    return kvs.keys, kvs.vals, kvs.lens


def _lens_fit(keys: Array, vals: Array, lens: Array) -> bool:
    return bool(
        lens.dtype == LEN_DTYPE
        and lens.size == keys.size
        and not (lens < 0).any()
        and int(lens.sum(dtype=np.int64)) == vals.size
    )


def _fault(message: Message) -> str | None:
    """Why a request is not valid, or None; the words are the keys of `rejected`."""
    data = message.data
    if not (message.meta.push or message.meta.pull):
        return "neither push nor pull"
    if len(data) not in (2, 3):
        return "no keys and values"
    if data[0].dtype != KEY_DTYPE or not data[0].size:
        return "keys are not uint64, or none"
    if not is_increasing(data[0]):
        return "keys are not sorted and unique"
    return _value_fault(message.meta.push, *data)


def _value_fault(push: bool, keys: Array, vals: Array, lens: Array | None = None) -> str | None:
    """Why the values of a request with valid keys do not fit, or None."""
    if not push:
        return "values in a pull" if vals.size or lens is not None else None
    if lens is not None:
        return None if _lens_fit(keys, vals, lens) else "lens do not fit keys and values"
    return "values do not fit the keys" if vals.size % keys.size else None
