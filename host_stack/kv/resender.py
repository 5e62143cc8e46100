"""The resender: messages are acknowledged, and sent again until they are.

As in ps-lite, every message but ACK and TERMINATE is answered by an ACK that bears its signature,
and one that comes twice is dropped. ZeroMQ loses nothing while a connection lives; what was on its
way when one broke is what this is for.
"""

import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from host_stack.kv.errors import KVConnectError, KVTimeout, KVUsageError
from host_stack.kv.message import Array, Message
from host_stack.kv.wire import EMPTY, Command, Control, Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node

MAX_RETRIES = 10
MAX_REMEMBERED = 1 << 16
"""Signatures of each peer; a message that comes again behind so many others is taken for new."""

_NEVER = (Command.ACK, Command.TERMINATE)


def signature(meta: Meta, sender: int, receiver: int) -> int:
    """The 64 bits by which an ACK names a message: ps-lite's, with 8 bits of each node's id.

    app:16 ‖ sender:8 ‖ receiver:8 ‖ timestamp:31 ‖ request:1.
    """
    return (
        (meta.app_id & 0xFFFF) << 48
        | (sender & 0xFF) << 40
        | (receiver & 0xFF) << 32
        | (meta.timestamp << 1 | meta.request) & 0xFFFFFFFF
    )


def _command(meta: Meta) -> int | None:
    return None if meta.control is None else meta.control.cmd


def _owner(meta: Meta) -> int:
    """The customer of a message; EMPTY of a control message, which counts time by itself."""
    return meta.customer_id if meta.control is None else EMPTY


@dataclass(slots=True)
class _Sent:
    """A message that was not acknowledged."""

    peer: int
    meta: Meta
    arrays: tuple[Array, ...]
    due_at: float
    retries: int = 0


class Resender:
    """The messages of a node that are not acknowledged, and those that it has seen.

    It begins when the roster is there. Registrations are not covered: a peer may know nothing of
    acknowledgements yet.
    """

    def __init__(self, node: "Node") -> None:
        """Have nothing on the way."""
        self._node = node
        self._timeout_s = node.config.resend_timeout_s
        self._lock = threading.Lock()
        # Signatures of ps-lite leave out the customer, and whether a message is one of control, so
        # that two messages may share one.
        self._sent: dict[int, deque[_Sent]] = {}
        self._seen: dict[int, OrderedDict[tuple[int, int], None]] = {}

    @property
    def _runs(self) -> bool:
        return bool(self._timeout_s and self._node.roster)

    def sent(self, peer: int, meta: Meta, arrays: tuple[Array, ...]) -> None:
        """Keep a message, just before it is sent."""
        if not self._runs or _command(meta) in (*_NEVER, Command.ADD_NODE):
            return
        if meta.timestamp == EMPTY:
            raise KVUsageError("a message without a timestamp cannot be acknowledged")
        sig = signature(meta, self._node.id, peer)
        entry = _Sent(peer, meta, arrays, time.monotonic() + self._timeout_s)
        with self._lock:
            self._sent.setdefault(sig, deque()).append(entry)

    def received(self, message: Message) -> bool:
        """Acknowledge a message; true if it is an ACK or came before, and ends here."""
        if not self._runs or message.peer is None:
            return False
        meta, peer = message.meta, message.peer
        command = _command(meta)
        if command == Command.ACK and meta.control is not None:
            self._settle(meta.control.msg_sig, meta.customer_id)
            return True
        if command in _NEVER:
            return False
        sig = signature(meta, peer, self._node.id)
        self._acknowledge(peer, sig, _owner(meta))
        if not meta.request and meta.control is None:
            # An answer says as much as the ACK of what it answers.
            self._settle(sig ^ self._turn(peer) | 1, meta.customer_id)
        return self._is_repeated(peer, (sig, _owner(meta)))

    def forget(self, peer: int) -> None:
        """A peer was started anew: it counts from 0, and knows nothing of what it was sent."""
        with self._lock:
            self._seen.pop(peer, None)
            for entries in self._sent.values():
                for entry in [each for each in entries if each.peer == peer]:
                    entries.remove(entry)

    def tick(self, now: float) -> None:
        """Send again what is due; a node that acknowledges nothing is given up."""
        if not self._runs:
            return
        with self._lock:
            self._sent = {sig: entries for sig, entries in self._sent.items() if entries}
            due = [e for entries in self._sent.values() for e in entries if e.due_at <= now]
            lost = {entry.peer for entry in due if entry.retries >= MAX_RETRIES}
        for peer in lost:
            self.forget(peer)
            self._node.liveness.give_up(peer)
        for entry in due:
            if entry.peer not in lost:
                entry.retries += 1
                entry.due_at = now + self._timeout_s * (1 + entry.retries)
                self._node.stats.resent += 1
                self._put(entry.peer, entry.meta, entry.arrays)

    def _turn(self, peer: int) -> int:
        """What makes the signature of a message that of one the other way round."""
        swapped = (self._node.id & 0xFF) ^ (peer & 0xFF)
        return swapped << 40 | swapped << 32

    def _acknowledge(self, peer: int, sig: int, customer: int) -> None:
        """Send an ACK that bears the customer too, at which the C++ library does not look."""
        ack = Meta(control=Control(Command.ACK, msg_sig=sig), customer_id=customer)
        self._put(peer, ack, ())

    def _put(self, peer: int, meta: Meta, arrays: tuple[Array, ...]) -> None:
        """Send past the book; what does not leave now is sent again later."""
        try:
            self._node.send_once(peer, meta, arrays)
        except (KVTimeout, KVConnectError, KVUsageError):
            self._node.stats.undeliverable += 1

    def _settle(self, sig: int, customer: int) -> None:
        """Forget the oldest message of a signature and customer; an ACK of C++ names none."""
        with self._lock:
            entries = self._sent.get(sig, deque())
            owners = [_owner(entry.meta) for entry in entries]
            if customer in owners:
                del entries[owners.index(customer)]
            elif entries and customer == EMPTY:
                entries.popleft()

    def _is_repeated(self, peer: int, mark: tuple[int, int]) -> bool:
        with self._lock:
            seen = self._seen.setdefault(peer, OrderedDict())
            if mark in seen:
                self._node.stats.repeated += 1
                return True
            seen[mark] = None
            if len(seen) > MAX_REMEMBERED:
                seen.popitem(last=False)
            return False
