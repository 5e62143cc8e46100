"""The van carries messages: one ROUTER to receive on, one DEALER for each peer to send on."""

import contextlib
import math
import re
import secrets
import socket
import threading
import weakref
from collections.abc import Sequence

import zmq

from host_stack.kv import wire
from host_stack.kv.config import KVConfig, local_path, resolve
from host_stack.kv.curve import Doorkeeper
from host_stack.kv.errors import KVConnectError, KVTimeout, KVUsageError, WireError
from host_stack.kv.ids import describe
from host_stack.kv.memory import LARGE_BYTES, KeptHeap, keep_memory
from host_stack.kv.message import Array, Message, arrays_from_frames, flat
from host_stack.kv.stats import NodeStats
from host_stack.kv.wire import MAX_DATA_FRAMES, Meta

_IDENTITY = re.compile(rb"ps(0*)([0-9]{1,9})")
_MAX_ZEROS = 200
_WAKE_ADDRESS = "inproc://wake"
_NEAR_SEND_BYTES = 256 << 10
"""What the kernel holds of what is sent within a machine: little, so that it is still in a cache
when it is received. Towards other machines its size follows the path."""


class _Dealer:
    """A sending socket with the lock that keeps the frames of one message together."""

    __slots__ = ("lock", "socket")

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self.lock = threading.Lock()
        self.socket = socket

    def close(self, linger_s: float) -> None:
        with self.lock:
            self.socket.close(int(linger_s * 1000))


class Van:
    """Sockets of one node.

    `send` may be called from any thread. `receive` and `wait_readable` belong to one thread,
    which also has to call `close_receiver`. A reply never returns on the connection that
    brought the request: it leaves by the DEALER to that peer.
    """

    def __init__(self, config: KVConfig, stats: NodeStats) -> None:
        """Make the sockets; nothing is bound or connected yet."""
        self._config = config
        self._stats = stats
        # Before ZeroMQ starts a thread.
        self._heap = KeptHeap() if config.keep_memory and keep_memory() else None
        self._context = zmq.Context()
        self._doorkeeper = None if config.key is None else Doorkeeper(self._context, config.key)
        self._lock = threading.Lock()
        self._dealers: dict[int, _Dealer] = {}
        self.router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self.router.set(zmq.MAXMSGSIZE, config.max_frame_bytes)
        self.router.set(zmq.RCVHWM, config.queue_messages)
        self.router.set(zmq.LINGER, 0)
        if config.key is not None:
            config.key.protect_listener(self.router)
        # No ROUTER_HANDOVER: identities are only `ps<id>`, so a process left over from another
        # job, reconnecting to a port that is now ours, would cut off the live peer of that id.
        # But a ROUTER that still believes in a dead peer ignores a second one of its identity;
        # who comes again therefore writes the number with leading zeros, which mean nothing.
        self._zeros = 0
        self._own_host = ""
        self._wake_receiver = self._context.socket(zmq.PAIR)
        self._wake_receiver.bind(_WAKE_ADDRESS)
        self._wake_sender = self._context.socket(zmq.PAIR)
        self._wake_sender.connect(_WAKE_ADDRESS)
        self._sockets = [self.router, self._wake_receiver, self._wake_sender]
        self._dropped = weakref.finalize(self, _drop, self._sockets, self._doorkeeper)
        self._dropped.atexit = False
        self._poller = zmq.Poller()
        self._poller.register(self.router, zmq.POLLIN)
        self._poller.register(self._wake_receiver, zmq.POLLIN)

    def bind(self, host: str, port: int) -> int:
        """Listen on host and port (0: any free one); return the port."""
        if self._config.local:
            port = port or _unused_number()
        self._own_host = host
        try:
            self.router.bind(self._address(host, port))
        except zmq.ZMQError as error:
            raise KVConnectError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose an address of this "
                "machine and a free port"
            ) from None
        if self._config.local:
            return port
        return int(self.router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def _address(self, host: str, port: int) -> str:
        if self._config.local:
            return f"ipc://{local_path(port)}"
        return f"tcp://{resolve(host)}:{port or '*'}"

    def come_again(self) -> None:
        """Connect from now on under an identity that no process of this id has used.

        The first one is drawn, since an earlier process has drawn its own; others follow in turn.
        """
        drawn = self._zeros or secrets.randbelow(_MAX_ZEROS)
        self._zeros = 1 + drawn % _MAX_ZEROS

    def connect(self, peer: int, host: str, port: int, own_id: int | None) -> None:
        """Open (or open again, under a new identity) the DEALER to a peer."""
        address = self._address(host, port)
        dealer = self._context.socket(zmq.DEALER)
        if own_id is not None:
            dealer.set(zmq.IDENTITY, b"ps" + b"0" * self._zeros + b"%d" % own_id)
        dealer.set(zmq.SNDHWM, self._config.queue_messages)
        if host == self._own_host or address.startswith("tcp://127."):
            dealer.set(zmq.SNDBUF, _NEAR_SEND_BYTES)
        if self._config.key is not None:
            self._config.key.protect_caller(dealer)
        dealer.set(zmq.SNDTIMEO, int(self._config.send_timeout_s * 1000))
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            dealer.close(0)
            raise KVConnectError(f"cannot connect to {host}:{port}: {error.strerror}") from None
        with self._lock:
            previous = self._dealers.get(peer)
            self._dealers[peer] = _Dealer(dealer)
            self._sockets.append(dealer)
            if previous is not None:
                self._sockets.remove(previous.socket)
        if previous is not None:
            previous.close(self._config.linger_s)

    def reaches(self, peer: int) -> bool:
        """Whether there is a connection to a peer; nodes of one role have none to each other."""
        with self._lock:
            return peer in self._dealers

    def send(self, peer: int, meta: Meta, arrays: Sequence[Array] = (), block: bool = True) -> None:
        """Queue a message for a peer.

        Arrays are not copied: they must stay unchanged until the peer has answered. Raises
        KVTimeout if the peer's queue stays full for `send_timeout_s` (at once without `block`).
        """
        frames = [memoryview(wire.encode(meta)), *(flat(array).data for array in arrays)]
        sizes = [frame.nbytes for frame in frames]
        if max(sizes) > self._config.max_frame_bytes:
            raise KVUsageError(
                f"a frame of {max(sizes)} bytes exceeds max_frame_bytes = "
                f"{self._config.max_frame_bytes}; split the keys or raise the limit on all nodes"
            )
        with self._lock:
            dealer = self._dealers.get(peer)
        if dealer is None:
            raise KVUsageError(
                f"no connection to {describe(peer)}: call start() first, and name a node of the job"
            )
        self._send_frames(peer, dealer, frames, 0 if block else zmq.DONTWAIT)
        with self._lock:
            self._stats.messages_sent += 1
            self._stats.bytes_sent += sum(sizes)

    def _send_frames(
        self, peer: int, dealer: _Dealer, frames: list[memoryview], flags: int
    ) -> None:
        try:
            with dealer.lock:
                dealer.socket.send_multipart(frames, flags=flags, copy=False)
        except zmq.Again:
            raise KVTimeout(
                f"{describe(peer)} does not take messages: its queue of "
                f"{self._config.queue_messages} is full",
                (peer,),
            ) from None
        except zmq.ZMQError as error:
            raise KVConnectError(f"cannot send to {describe(peer)}: {error.strerror}") from None

    def receive(self) -> Message | None:
        """Take one message, or None if there is none; raises WireError for a malformed one."""
        try:
            part = identity = self.router.recv(zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return None
        frames: list[zmq.Frame] = []
        surplus = 0
        self._stats.messages_received += 1
        while part.more:
            part = self.router.recv(copy=False)
            self._stats.bytes_received += len(part)
            if len(frames) > MAX_DATA_FRAMES:
                surplus += 1
            else:
                frames.append(part)
        if surplus or not frames:
            raise WireError(
                f"a message has {len(frames) + surplus} frames, 1 to {MAX_DATA_FRAMES + 1} are "
                "allowed"
            )
        if self._heap is not None and max(map(len, frames)) >= LARGE_BYTES:
            self._heap.use_huge_pages()
        meta = wire.decode(frames[0].bytes)
        peer, connection = _peer(identity.bytes)
        return Message(meta, peer, arrays_from_frames(meta.data_types, frames[1:]), connection)

    def wait_readable(self, timeout_s: float | None) -> None:
        """Sleep until a message can be received, `wake` is called, or time is up."""
        timeout_ms = None if timeout_s is None else math.ceil(max(timeout_s, 0) * 1000)
        ready = dict(self._poller.poll(timeout_ms))
        if self._wake_receiver in ready:
            self._wake_receiver.recv(zmq.DONTWAIT)

    def wake(self) -> None:
        """End a `wait_readable` from another thread."""
        # A full queue means that the receiver has been woken already.
        with self._lock, contextlib.suppress(zmq.Again):
            self._wake_sender.send(b"", zmq.DONTWAIT)

    def close_receiver(self) -> None:
        """Close what the receiving thread owns."""
        self.router.close()
        self._wake_receiver.close()

    def close_senders(self, linger_s: float) -> None:
        """Close the rest; wait for at most `linger_s` for queued messages to leave."""
        with self._lock:
            dealers = list(self._dealers.values())
            self._dealers.clear()
            self._wake_sender.close(0)
        for dealer in dealers:
            dealer.close(linger_s)
        if self._doorkeeper is not None:
            self._doorkeeper.stop()
        # `destroy` closes what is left first: a socket that an exception (a signal's, say) kept
        # from being entered above would let `term` wait for ever.
        self._context.destroy(0)
        self._dropped.detach()


def _peer(identity: bytes) -> tuple[int | None, int]:
    """Node id in a ROUTER identity `ps<id>`, and zeros before it; None if it has no id yet."""
    match = _IDENTITY.fullmatch(identity)
    return (int(match[2]), len(match[1])) if match else (None, 0)


def _drop(sockets: list["zmq.Socket[bytes]"], doorkeeper: Doorkeeper | None) -> None:
    """Close what a node has left that nobody closed: its context would wait for them for ever."""
    for each in sockets:
        each.close(0)
    if doorkeeper is not None:
        doorkeeper.stop()


def _unused_number() -> int:
    """A number that is no port in use, as a name for a Unix-domain socket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
