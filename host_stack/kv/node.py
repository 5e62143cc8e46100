"""A node of the job: joins the roster, passes barriers, and hands messages to its apps.

Reception runs either in a thread of the node's own (the default) or, with `threaded=False`, in
the owner's event loop: the owner polls `socket` and calls `process`. In that mode `start`,
`barrier`, `finalize` and the waits of apps receive while they wait, so one thread is enough.
Request handlers and callbacks run wherever reception runs, one at a time. What a handler raises
comes out of the owner's loop; a thread goes on, and the next wait raises it (`KVHandlerError`).
"""

import logging
import threading
import time
from collections.abc import Callable

import zmq

from host_stack.kv.config import KVConfig, address_towards
from host_stack.kv.control import ControlPlane
from host_stack.kv.errors import KVError, KVNodeLost, KVTimeout, KVUsageError, WireError
from host_stack.kv.failures import Failures
from host_stack.kv.ids import (
    ALL_GROUP,
    GROUP_OF_ROLE,
    SCHEDULER_ID,
    Role,
    describe,
    members,
    rank_of,
)
from host_stack.kv.inbox import App, Inbox
from host_stack.kv.liveness import Liveness
from host_stack.kv.message import Array, Message, code_of
from host_stack.kv.resender import Resender
from host_stack.kv.stats import NodeStats
from host_stack.kv.van import Van
from host_stack.kv.wire import EMPTY, Meta, NodeInfo

_LOG = logging.getLogger(__name__)
# A signal that arrives just before a wait is noticed when the wait ends, so none is long.
_MAX_WAIT_STEP_S = 0.5
_JOIN_LIMIT_S = 10.0
_AT_ONCE = 256  # messages that are handled before anything else is looked after


class Node:
    """One scheduler, server or worker; many may live in one process."""

    def __init__(self, config: KVConfig, threaded: bool = True) -> None:
        """Make the node; nothing is bound or sent before `start`."""
        self.config = config
        """As given."""
        self.stats = NodeStats()
        """What was sent, received and refused, in counts."""
        self.condition = threading.Condition()
        self._van = Van(config, self.stats)
        self._control = ControlPlane(self)
        self.liveness = Liveness(self)
        self._resender = Resender(self)
        self._tick_s = config.tick_s
        self._inbox = Inbox(config, self.stats)
        self._early_due = False
        self._threaded = threaded
        self.failures = Failures(self.stats, goes_on=threaded)
        self._thread: threading.Thread | None = None
        self._dispatching_thread: int | None = None
        self._failure: BaseException | None = None
        self._stopping = False
        self._closed = False
        self._info: NodeInfo | None = None

    # -- identity ---------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The role of this node."""
        return self.config.role

    @property
    def id(self) -> int:
        """The node id; raises KVUsageError before the scheduler has assigned it."""
        if self.info.id == EMPTY:
            raise KVUsageError("the node has no id yet: call start() first")
        return self.info.id

    @property
    def rank(self) -> int:
        """The rank among the nodes of the same role."""
        return rank_of(self.id)

    @property
    def info(self) -> NodeInfo:
        """Name and address of this node; raises KVUsageError before it is bound."""
        if self._info is None:
            raise KVUsageError("the node is not bound yet: call bind() or start() first")
        return self._info

    @property
    def roster(self) -> tuple[NodeInfo, ...]:
        """All nodes of the job, empty before the scheduler has sent the roster."""
        return self._control.roster

    @property
    def lost(self) -> frozenset[int]:
        """Ids of nodes that are silent or acknowledge nothing, as far as this node can know."""
        return self.liveness.lost

    def next_control_timestamp(self) -> int:
        """The timestamp of the next control message of this node."""
        return self._control.next_timestamp()

    def returned(self, peer: int) -> None:
        """Note that a node was started anew."""
        self.liveness.heard(peer)
        self._resender.forget(peer)
        self._inbox.peer_returned(peer)

    def adopt(self, info: NodeInfo) -> None:
        """Take the identity that the scheduler assigned."""
        self._info = info
        if info.is_recovery:
            self._van.come_again()

    # -- life -------------------------------------------------------------------------------

    def bind(self) -> int:
        """Listen, and return the port; `start` does this if it has not been done."""
        self._check_open()
        if self._info is None:
            scheduler = self.role is Role.SCHEDULER
            config = self.config
            host = config.node_host or address_towards(config.root_host)
            if scheduler:
                host = config.root_host
            port = self._van.bind(host, config.root_port if scheduler else config.node_port)
            self._info = NodeInfo(self.role, host, port, SCHEDULER_ID if scheduler else EMPTY)
        return self._info.port

    def start(self, timeout_s: float | None = None) -> None:
        """Register, wait for the roster and for all others to have it (barrier on group 7).

        A node that takes the place of one that died gets its id back and waits for nobody.

        Raises KVTimeout when the job is not complete within `timeout_s`, KVConnectError when
        the address cannot be bound, KVProtocolError when the scheduler's roster does not fit.
        """
        limit_s = self.config.start_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        if self.roster:
            raise KVUsageError("the node has been started already")
        self.bind()
        if self._threaded and self._thread is None:
            self._thread = threading.Thread(target=self._receive_loop, name="kv", daemon=True)
            self._thread.start()
        self._control.register()
        if not self.wait_until(lambda: bool(self.roster), limit_s):
            raise KVTimeout(self._control.start_failure(limit_s))
        if self.info.is_recovery:
            return  # the others passed this barrier long ago
        self.barrier(ALL_GROUP, max(deadline - time.monotonic(), 0.0))

    def barrier(self, group: int, timeout_s: float | None = None) -> None:
        """Wait until every member of a group has called this.

        Raises KVTimeout; the barrier then stays pending, and calling again with the same group
        goes on waiting. Raises KVUsageError where this node is not a member.
        """
        self.failures.raise_kept()
        self._barrier(group, timeout_s)

    def _barrier(self, group: int, timeout_s: float | None) -> None:
        limit_s = self.config.barrier_timeout_s if timeout_s is None else timeout_s
        if not group & GROUP_OF_ROLE[self.role] or not 1 <= group <= ALL_GROUP:
            raise KVUsageError(f"{describe(self.id)} is not a member of barrier group {group}")
        if len(self.members(group)) == 1:
            return
        self._control.enter_barrier(group)
        if not self.wait_until(
            lambda: not self._control.in_barrier or SCHEDULER_ID in self.lost, limit_s
        ):
            text, missing = self._control.barrier_failure(group, limit_s)
            raise KVTimeout(text, missing)
        if self._control.in_barrier:
            raise KVNodeLost(
                f"the scheduler is lost in the barrier on group {group}", (SCHEDULER_ID,)
            )

    def finalize(self, timeout_s: float | None = None) -> None:
        """Wait for all nodes (barrier on group 7), then stop; queued messages still leave.

        Raises KVHandlerError after that, if a handler has raised.
        """
        self._barrier(ALL_GROUP, timeout_s)
        self._stop(self.config.linger_s)
        self.failures.raise_kept()

    def close(self) -> None:
        """Stop at once and without a word to anyone; does nothing if already stopped."""
        self._stop(0.0)

    def _stop(self, linger_s: float) -> None:
        if self._closed:
            return
        self._check_outside_of_handlers("stop the node")
        self._closed = self._stopping = True
        if self._thread is not None:
            self._van.wake()
            self._thread.join(_JOIN_LIMIT_S)
            if self._thread.is_alive():
                raise KVTimeout(
                    f"a handler of this node has not returned for {_JOIN_LIMIT_S:g} s; its thread "
                    "and sockets are left behind"
                )
        else:
            self._van.close_receiver()
        self._van.close_senders(linger_s)
        with self.condition:
            self.condition.notify_all()

    # -- sending ----------------------------------------------------------------------------

    def members(self, target: int) -> tuple[int, ...]:
        """Node ids of a group (1 to 7) or of one node; customers of a process count once."""
        found = members(target, self.config.num_workers, self.config.num_servers)
        if not self.roster or len(found) == 1:
            return found
        return tuple(filter(self._control.knows, found))

    def connect(self, peer: int, host: str, port: int) -> None:
        """Open the connection on which this node sends to a peer."""
        self._van.connect(peer, host, port, None if self.info.id == EMPTY else self.info.id)

    def reconnect(self, peer: int) -> None:
        """Open the connection to a node of the roster anew, when it may not have been taken.

        So too when TCP has waited too long to send again; a server then follows its worker. What
        was on its way may be lost, or come late.
        """
        self._van.come_again()
        self._control.reconnect(peer)

    def send(
        self, peer: int, meta: Meta, arrays: tuple[Array, ...] = (), block: bool = True
    ) -> None:
        """Send a message; arrays are not copied and must stay unchanged until answered."""
        self._check_open()
        if arrays:
            meta = meta._replace(data_types=tuple(map(code_of, arrays)))
        self._resender.sent(peer, meta, arrays)
        self._van.send(peer, meta, arrays, block and not self._in_handler)

    def send_once(self, peer: int, meta: Meta, arrays: tuple[Array, ...] = ()) -> None:
        """Send a message that the resender does not look after, without waiting."""
        self._van.send(peer, meta, arrays, block=False)

    # -- receiving --------------------------------------------------------------------------

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        """The receiving socket, for a zmq.Poller of the owner (`threaded=False`)."""
        return self._van.router

    def fileno(self) -> int:
        """Edge-triggered descriptor: after it fires, call `process` until it returns 0."""
        return int(self._van.router.get(zmq.FD))

    def process(self, max_messages: int = 256) -> int:
        """Handle up to `max_messages` waiting messages without blocking; return how many.

        For the owner's event loop (`threaded=False`). What a handler raises comes out here.
        """
        self._check_open()
        if self._threaded:
            raise KVUsageError("this node receives in its own thread; make it with threaded=False")
        self._check_outside_of_handlers("process messages")
        return self._process(max_messages)

    def _process(self, max_messages: int) -> int:
        self._tick()
        if self._early_due:
            self._deliver_early()
        for count in range(max_messages):
            try:
                message = self._van.receive()
            except WireError as error:
                _LOG.debug("malformed message: %s", error)
                with self.condition:
                    self.stats.malformed += 1
                    self.condition.notify_all()
                continue
            if message is None:
                return count
            if message.peer is not None and self._control.knows(message.peer):
                self.liveness.heard(message.peer)
                self._control.follow(message.peer, message.connection)
                if self._resender.received(message):
                    continue
            self._dispatch(message)
        return max_messages

    def _tick(self) -> None:
        if self._tick_s is None or not self.roster:
            return
        now = time.monotonic()
        before = self.lost
        self.liveness.tick(now)
        self._resender.tick(now)
        if self.lost != before:
            with self.condition:
                self.condition.notify_all()

    def _dispatch(self, message: Message) -> None:
        self._dispatching_thread = threading.get_ident()
        try:
            if message.meta.control is not None:
                self._control.handle(message, message.meta.control)
            else:
                self._deliver(message)
        finally:
            self._dispatching_thread = None
        with self.condition:
            self.condition.notify_all()

    def _deliver(self, message: Message) -> None:
        peer = message.peer
        if peer is None or not (self._control.knows(peer) and self._van.reaches(peer)):
            self.stats.unknown_sender += 1
            return
        self._inbox.deliver(message)

    def register_app(self, app_id: int, customer_id: int, app: App) -> None:
        """Deliver messages of (app_id, customer_id) to an app; one app for each pair."""
        with self.condition:
            self._inbox.register(app_id, customer_id, app)

    def handler_set(self) -> None:
        """Deliver what came too early; an app calls this when it has got a handler."""
        self._early_due = True
        if self._threaded:
            self._van.wake()
        elif not self._in_handler:
            self._process(0)

    def _deliver_early(self) -> None:
        self._early_due = False
        for message in self._inbox.take_early():
            self._dispatch(message)

    def _receive_loop(self) -> None:
        try:
            while not self._stopping:
                self._van.wait_readable(self._tick_s)
                self._process(_AT_ONCE)
        except Exception as error:
            if not self._stopping:
                _LOG.exception("reception of %s ended", self._info)
            with self.condition:
                self._failure = error
                self.condition.notify_all()
        finally:
            self._van.close_receiver()

    # -- waiting ----------------------------------------------------------------------------

    def wait_until(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a predicate, receiving meanwhile; False if the deadline passed first.

        Raises KVUsageError inside a handler or callback, where waiting could never end, and
        KVError if reception has ended.
        """
        self._check_outside_of_handlers("wait")
        deadline = time.monotonic() + timeout_s
        if self._threaded:
            return self._wait_for_thread(predicate, deadline)
        while not predicate():
            self._check_open()
            handled = self._process(_AT_ONCE)
            if handled == _AT_ONCE or (handled and predicate()):
                continue
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return False
            self._van.wait_readable(min(remaining_s, self._tick_s or _MAX_WAIT_STEP_S))
        return True

    def _wait_for_thread(self, predicate: Callable[[], bool], deadline: float) -> bool:
        with self.condition:
            while not predicate():
                self._check_open()
                if self._failure is not None:
                    if isinstance(self._failure, KVError):
                        raise self._failure
                    raise KVError(f"reception ended: {self._failure!r}") from self._failure
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    return False
                self.condition.wait(min(remaining_s, _MAX_WAIT_STEP_S))
            return True

    @property
    def _in_handler(self) -> bool:
        return self._dispatching_thread == threading.get_ident()

    def _check_outside_of_handlers(self, what: str) -> None:
        if self._in_handler:
            raise KVUsageError(f"cannot {what} inside a handler or callback of the same node")

    def _check_open(self) -> None:
        if self._closed:
            raise KVUsageError("the node is closed")
