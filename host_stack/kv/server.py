"""KVServer: answers the pushes and pulls of all workers, now or later."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from host_stack.kv.app import SimpleApp
from host_stack.kv.ascending import is_increasing
from host_stack.kv.errors import KVUsageError, WireError
from host_stack.kv.ids import describe
from host_stack.kv.kept import KeptKeys
from host_stack.kv.message import KEY_DTYPE, LEN_DTYPE, Array, KeyArray, KVPairs, Message
from host_stack.kv.refusal import reason_body
from host_stack.kv.sparing import NO_KEYS
from host_stack.kv.wire import Meta
from host_stack.kv.word import Says, Word, word_of

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
    # What the server needs to leave the keys out of its answer.
    keys: KeyArray = field(default_factory=lambda: NO_KEYS, compare=False, repr=False)
    word: Word | None = field(default=None, compare=False, repr=False)


RequestHandle = Callable[[KVMeta, KVPairs, "KVServer"], None]
"""Serves a request; answers it, once, with `KVServer.response` or `KVServer.refuse`."""


class KVServer(SimpleApp):
    """The server's end of a key-value app.

    The handle gets arrays that share memory with the received frames, as long as it keeps
    them. Requests that are not valid (keys not increasing, values that do not fit) never reach
    it: they are counted in `rejected`, by reason, and refused. Keys are read-only. They may have
    been kept from an earlier request (`KVConfig.keep_keys_bytes`), and the answer to a pull leaves
    them out where its worker knows them, and it is given the very array of the request.
    """

    def __init__(self, node: "Node", app_id: int = 0) -> None:
        """Attach to a node, before or after its `start`."""
        super().__init__(node, app_id, app_id)
        self.rejected: Counter[str] = Counter()
        """Requests that were refused, by reason."""
        self._handle: RequestHandle | None = None
        self._keeps = node.config.keep_keys_bytes > 0
        self._kept = KeptKeys(node.config.keep_keys_bytes)

    def set_request_handle(self, handle: RequestHandle) -> None:
        """Call `handle(meta, kvs, server)` for each push and pull.

        It must call `response` or `refuse`, at once or later from the same thread. Requests that
        come before a handle is set wait for it. One at which the handle raises is refused where a
        thread receives; the next wait of the program raises KVHandlerError.
        """
        self._handle = handle
        self.node.handler_set()

    def response(self, meta: KVMeta, kvs: KVPairs | None = None) -> bool:
        """Answer a request, once: a push with nothing, a pull with its keys and their values.

        Arrays are not copied and must not be changed afterwards. Returns False (and counts
        `undeliverable`) if the worker takes no messages. Raises KVUsageError where the answer
        does not fit the request.
        """
        arrays = _response_arrays(meta, kvs)
        word = meta.word
        if word is not None and word.says & Says.VALUES:
            if arrays[0] is meta.keys:
                arrays = (NO_KEYS, *arrays[1:])
            else:
                word = replace(word, says=word.says & ~Says.VALUES)
        return self._respond(meta, self._answer(meta, word), arrays)

    def refuse(self, meta: KVMeta, reason: str) -> bool:
        """Answer a request, once: nothing of it counts, for `reason` (a line for people).

        The worker's `wait` raises KVRefused. Returns as `response` does.
        """
        answer = self._answer(meta)._replace(pull=True, body=reason_body(reason))
        return self._respond(meta, answer)

    def peer_returned(self, peer: int) -> None:
        """Note that a worker was started anew: it uses none of the keys that it had."""
        super().peer_returned(peer)
        self._kept.drop(peer)

    def _answer(self, meta: KVMeta, word: Word | None = None) -> Meta:
        return Meta(
            head=meta.cmd,
            push=meta.push,
            pull=meta.pull,
            app_id=self.app_id,
            customer_id=meta.customer_id,
            timestamp=meta.timestamp,
            body=b"" if word is None else word.encode(),
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
        try:
            said = word_of(meta)
        except WireError:
            self._reject(request, "a word about keys that is none")
            return True
        data, is_named = message.data, said is not None and bool(said.says & Says.NAMED)
        reason = None if said is None else _word_fault(said, data)
        if said is not None and is_named and reason is None:
            keys = self._kept.find((request.sender, request.customer_id), said)
            if keys is None:
                self._respond(request, self._answer(request, replace(said, says=Says.LACKING)))
                return True
            data = (keys, *data[1:])
        reason = reason or _fault(meta, data, is_checked=is_named)
        if reason is not None:
            self._reject(request, reason)
            return True
        data[0].flags.writeable = False
        if said is not None and self._keeps:
            request.keys, request.word = data[0], self._answer_to(said, request, data[0])
        self._call_handle(self._handle, request, KVPairs(*data))
        return True

    def _call_handle(self, handle: RequestHandle, request: KVMeta, kvs: KVPairs) -> None:
        """Let the program serve a request; one at which it fails is refused, and others come."""
        try:
            handle(request, kvs, self)
        except Exception as error:
            self._fails(f"the handle of a request of {describe(request.sender)}", error)
            if not request.answered:
                kind = type(error).__name__
                self.refuse(request, f"its handle raised {kind}; what it did before may count")

    def _answer_to(self, said: Word, request: KVMeta, keys: KeyArray) -> Word:
        """What to say back to a word in a request that counts; keep what it wants to be kept."""
        says = said.says & Says.VALUES
        customer = request.sender, request.customer_id
        if said.says & Says.NAMED or (
            said.says & Says.KEEP and self._kept.keep(customer, said.name, keys, self.node.lost)
        ):
            says |= Says.KEEP
        return replace(said, says=says)

    def _reject(self, request: KVMeta, reason: str) -> None:
        self.rejected[reason] += 1
        self.refuse(request, reason)


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


def _word_fault(said: Word, data: tuple[Array, ...]) -> str | None:
    """Why a word does not fit the keys that came with it, or None."""
    count = 0 if said.says & Says.NAMED else said.count
    fits = data and data[0].size == count and data[0].dtype == KEY_DTYPE
    return None if fits else "a word about other keys"


def _fault(meta: Meta, data: tuple[Array, ...], *, is_checked: bool) -> str | None:
    """Why a request is not valid, or None; the words are the keys of `rejected`."""
    if not (meta.push or meta.pull):
        return "neither push nor pull"
    if len(data) not in (2, 3):
        return "no keys and values"
    if data[0].dtype != KEY_DTYPE or not data[0].size:
        return "keys are not uint64, or none"
    if not is_checked and not is_increasing(data[0]):
        return "keys are not sorted and unique"
    return _value_fault(meta.push, *data)


def _value_fault(push: bool, keys: Array, vals: Array, lens: Array | None = None) -> str | None:
    """Why the values of a request with valid keys do not fit, or None."""
    if not push:
        return "values in a pull" if vals.size or lens is not None else None
    if lens is not None:
        return None if _lens_fit(keys, vals, lens) else "lens do not fit keys and values"
    return "values do not fit the keys" if vals.size % keys.size else None
