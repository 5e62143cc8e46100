"""Control messages: one handler for each command, and the state that they change.

The scheduler registers nodes, sends the roster, and counts arrivals at barriers. The other
nodes learn the roster and hear that a barrier is complete.
"""

import itertools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from host_stack.kv.config import listens
from host_stack.kv.errors import KVProtocolError, KVTimeout, KVUsageError
from host_stack.kv.ids import SCHEDULER_ID, Role, describe, role_of
from host_stack.kv.message import Message
from host_stack.kv.roster import Barriers, Registration, check_roster
from host_stack.kv.wire import Command, Control, Meta, NodeInfo

if TYPE_CHECKING:
    from host_stack.kv.node import Node

_LOG = logging.getLogger(__name__)


class ControlPlane:
    """The part of a node that speaks with the scheduler, or is it."""

    def __init__(self, node: "Node") -> None:
        """Know nothing yet but the size of the job."""
        config = node.config
        self._node = node
        self._timestamps = itertools.count()
        self._registered = False
        self._registration = Registration(config.num_workers, config.num_servers)
        self._barriers = Barriers(config.num_workers, config.num_servers)
        self._barrier_group = 0
        self._known: frozenset[int] = frozenset()
        self._connections: dict[int, set[int]] = {}
        self.roster: tuple[NodeInfo, ...] = ()
        self._handlers = {
            Command.ADD_NODE: self._on_add_node,
            Command.BARRIER: self._on_barrier,
            Command.HEARTBEAT: self._on_heartbeat,
        }

    @property
    def _is_scheduler(self) -> bool:
        return self._node.role is Role.SCHEDULER

    def knows(self, peer: int) -> bool:
        """Whether a node id is in the roster."""
        return peer in self._known

    def handle(self, message: Message, control: Control) -> None:
        """Act on a control message, or count it where it has no meaning here.

        TERMINATE is among these: a node stops by its own decision only. So is ACK without a
        resender.
        """
        handler = self._handlers.get(control.cmd)  # type: ignore[call-overload]
        if handler is None:
            self._node.stats.unknown_command += 1
            _LOG.debug("control command %d from %s has no meaning here", control.cmd, message.peer)
            return
        handler(message, control)

    def next_timestamp(self) -> int:
        """The timestamp of the next control message."""
        return next(self._timestamps)

    def _send(self, peer: int, control: Control, **fields: int | bool) -> None:
        """Send a control message; a peer that takes none is counted, never waited for."""
        meta = Meta(control=control, timestamp=self.next_timestamp(), **fields)  # type: ignore[arg-type]
        try:
            self._node.send(peer, meta)
        except KVTimeout as error:
            self._node.stats.undeliverable += 1
            _LOG.warning("control message lost: %s", error)

    # -- registration -----------------------------------------------------------------------

    def register(self) -> None:
        """Open the connection to the scheduler and, unless this is it, tell it about this node."""
        if self._registered:
            return
        self._registered = True
        config, info = self._node.config, self._node.info
        port = info.port if self._is_scheduler else config.root_port
        self._node.connect(SCHEDULER_ID, config.root_host, port)
        if not self._is_scheduler:
            for customer in range(config.customers):
                entry = replace(info, customer_id=customer)
                self._send(SCHEDULER_ID, Control(Command.ADD_NODE, (entry,)))

    def reconnect(self, peer: int) -> None:
        """Open the connection to a node of the roster anew.

        A ROUTER ignores a second connection of an identity while it believes in the first one:
        after a restart the first attempt may come too early.
        """
        for node in self.roster:
            if node.id == peer:
                self._node.connect(node.id, node.hostname, node.port)

    def follow(self, peer: int, connection: int) -> None:
        """Connect anew to a worker that has done so (servers only).

        What made it give up its connection has probably stopped the one towards it as well.
        """
        if self._node.role is not Role.SERVER or not self.knows(peer):
            return
        if role_of(peer) is Role.SERVER:  # of which there are no connections to each other
            return
        seen = self._connections.setdefault(peer, set())
        if seen and connection not in seen:
            self._node.reconnect(peer)
        seen.add(connection)

    def start_failure(self, limit_s: float) -> str:
        """Say why the job did not come together."""
        config = self._node.config
        if self._is_scheduler:
            return (
                f"after {limit_s:g} s {self._registration.missing(Role.WORKER)} of "
                f"{config.num_workers} workers and {self._registration.missing(Role.SERVER)} of "
                f"{config.num_servers} servers have not registered"
            )
        return (
            f"after {limit_s:g} s no roster has come from the scheduler at {config.root_host}:"
            f"{config.root_port}: is it running, and have all {config.num_workers} workers and "
            f"{config.num_servers} servers been started, and not one more? Its log says whom it "
            "has refused"
        )

    def _on_add_node(self, message: Message, control: Control) -> None:
        if self._is_scheduler:
            self._enter(message, control)
        elif message.peer != SCHEDULER_ID:
            self._node.stats.unexpected_control += 1
        elif self.roster:
            self._meet_again(control.nodes)
        else:
            self._learn(control.nodes)

    def _enter(self, message: Message, control: Control) -> None:
        """Register the one node that the message names (scheduler only)."""
        try:
            if message.peer is not None or len(control.nodes) != 1:
                raise KVProtocolError(
                    f"ADD_NODE with {len(control.nodes)} nodes from {message.peer}: one node "
                    "without an id is allowed"
                )
            if self.roster:
                lost = self._node.liveness.lost
                self._readmit(self._registration.replace(control.nodes[0], self.roster, lost))
                return
            self._registration.add(control.nodes[0])
        except KVProtocolError as error:
            self._node.stats.refused_registration += 1
            _LOG.warning("registration refused: %s", error)
            return
        if self._registration.complete:
            self._publish()

    def _readmit(self, back: NodeInfo) -> None:
        """Give a restarted node its id back, and tell the others its new address (scheduler).

        Raises KVProtocolError while the node that it replaces still listens.
        """
        former = next(node for node in self.roster if node.id == back.id)
        if listens(former.hostname, former.port, local=self._node.config.local):
            raise KVProtocolError(
                f"{describe(back.id)} is alive at {former.hostname}:{former.port}; the job has no "
                f"place for another one at {back.hostname}:{back.port}"
            )
        self._node.returned(back.id)
        self._node.connect(back.id, back.hostname, back.port)
        self._accept_roster(tuple(back if node.id == back.id else node for node in self.roster))
        for peer in self._node.members(6):
            nodes = self.roster if peer == back.id else (back,)
            self._send(peer, Control(Command.ADD_NODE, nodes))

    def _meet_again(self, nodes: tuple[NodeInfo, ...]) -> None:
        """Connect to a restarted node at its new address."""
        known = {node.id: node for node in self.roster}
        back = [n for n in nodes if n.is_recovery and n.id in known and n.id != self._node.id]
        if len(back) != 1 or len(nodes) != 1 or back[0].role is not known[back[0].id].role:
            self._node.stats.unexpected_control += 1
            return
        self._node.returned(back[0].id)
        if back[0].role is not self._node.role:
            self._node.connect(back[0].id, back[0].hostname, back[0].port)
        self._accept_roster(tuple((known | {back[0].id: back[0]}).values()))

    def _publish(self) -> None:
        """Send the roster to all nodes, workers first, this one last in the list."""
        nodes = self._registration.ranked()
        roster = (*nodes, self._node.info)
        for node in {node.id: node for node in nodes}.values():
            self._node.connect(node.id, node.hostname, node.port)
        self._barriers.share(roster)
        self._accept_roster(roster)
        self._node.liveness.expect(self._node.members(6))
        for peer in self._node.members(6):
            self._send(peer, Control(Command.ADD_NODE, roster))

    def _learn(self, nodes: tuple[NodeInfo, ...]) -> None:
        """Find this node in the roster and connect to the nodes that it talks to."""
        config, own = self._node.config, self._node.info
        check_roster(nodes, config.num_workers, config.num_servers)
        named = [n for n in nodes if (n.hostname, n.port) == (own.hostname, own.port)]
        if (
            len(named) != config.customers
            or named[0].role is not own.role
            or role_of(named[0].id) is not own.role
        ):
            raise KVProtocolError(
                f"the roster does not name {own.role.name.lower()} {own.hostname}:{own.port} once"
            )
        self._node.adopt(named[0])
        for peer in {node.id: node for node in nodes}.values():
            if peer.role is not own.role or peer.id == named[0].id:
                self._node.connect(peer.id, peer.hostname, peer.port)
        self._accept_roster(nodes)
        if config.heartbeat_interval_s:
            self._node.liveness.expect((SCHEDULER_ID,))

    def _accept_roster(self, nodes: tuple[NodeInfo, ...]) -> None:
        self._known = frozenset(node.id for node in nodes)
        self.roster = nodes

    # -- barriers ---------------------------------------------------------------------------

    @property
    def in_barrier(self) -> bool:
        """Whether this node has entered a barrier that is not complete."""
        return self._barrier_group != 0

    def enter_barrier(self, group: int) -> None:
        """Tell the scheduler that this node has arrived, once for each barrier."""
        with self._node.condition:
            pending, self._barrier_group = self._barrier_group, group
            if pending not in (0, group):
                self._barrier_group = pending
                raise KVUsageError(
                    f"the barrier on group {pending} is still pending; wait for it again before "
                    f"one on group {group}"
                )
        if not pending:
            control = Control(Command.BARRIER, barrier_group=group)
            for customer in range(self._node.config.customers):
                self._send(SCHEDULER_ID, control, request=True, app_id=0, customer_id=customer)

    def barrier_failure(self, group: int, limit_s: float) -> tuple[str, tuple[int, ...]]:
        """Say who is missing at a barrier, where this node can know (the scheduler)."""
        text = f"the barrier on group {group} is not complete after {limit_s:g} s"
        if not self._is_scheduler:
            return f"{text}: a node is late, dead or has not called it", ()
        missing = self._barriers.missing(group)
        return f"{text}; missing: {', '.join(map(describe, missing))}", missing

    def _on_barrier(self, message: Message, control: Control) -> None:
        if message.meta.request:
            self._arrive(message, control)
        elif message.peer != SCHEDULER_ID or not self.in_barrier:
            self._node.stats.unexpected_control += 1
        else:
            # The group in a C++ scheduler's answer is uninitialised, so it is not looked at;
            # a node has one barrier pending at most.
            self._barrier_group = 0

    def _arrive(self, message: Message, control: Control) -> None:
        if not self._is_scheduler or message.peer is None:
            self._node.stats.unexpected_control += 1
            return
        try:
            complete = self._barriers.arrive(control.barrier_group, message.peer)
        except KVProtocolError as error:
            self._node.stats.refused_barrier += 1
            _LOG.warning("barrier request ignored: %s", error)
            return
        answer = Control(Command.BARRIER, barrier_group=control.barrier_group)
        for peer in complete:
            self._send(peer, answer, app_id=0, customer_id=0)

    # -- heartbeats -------------------------------------------------------------------------

    def _on_heartbeat(self, message: Message, control: Control) -> None:
        if message.peer is None or not self.knows(message.peer):
            self._node.stats.unknown_sender += 1
            return
        self._node.stats.heartbeats += 1
        if self._is_scheduler and message.peer != SCHEDULER_ID:
            self._send(message.peer, Control(Command.HEARTBEAT, (self._node.info,)))
