"""Which nodes are alive: heartbeats to the scheduler, and who has not been heard for too long.

Every node tells the scheduler that it lives, and the scheduler answers. So the scheduler knows of
all nodes, and the others know of the scheduler; of each other they know what `Resender` finds.
"""

import threading
import time
from typing import TYPE_CHECKING

from host_stack.kv.errors import KVConnectError, KVTimeout
from host_stack.kv.ids import SCHEDULER_ID, Role
from host_stack.kv.wire import Command, Control, Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node


class Liveness:
    """Sends heartbeats, and keeps the set of nodes that are taken for lost.

    A node is lost when it has been silent for `heartbeat_timeout_s`, or takes no message
    (`give_up`), until something comes from it again.
    """

    def __init__(self, node: "Node") -> None:
        """Have heard of nobody."""
        self._node = node
        self._lock = threading.Lock()
        self._heard: dict[int, float] = {}
        self._given_up: set[int] = set()
        self._silent: frozenset[int] = frozenset()
        self._beat_at = 0.0

    @property
    def lost(self) -> frozenset[int]:
        """Ids of the nodes that are lost."""
        with self._lock:
            return self._silent | self._given_up

    def expect(self, peers: tuple[int, ...]) -> None:
        """Count the silence of nodes from now on."""
        now = time.monotonic()
        with self._lock:
            for peer in peers:
                self._heard[peer] = now

    def heard(self, peer: int) -> None:
        """Note that something has come from a node."""
        with self._lock:
            if peer in self._heard:
                self._heard[peer] = time.monotonic()
            self._given_up.discard(peer)

    def give_up(self, peer: int) -> None:
        """Note that a node does not take messages."""
        with self._lock:
            self._given_up.add(peer)

    def tick(self, now: float) -> None:
        """Send the heartbeat if it is due, and see who is silent."""
        config = self._node.config
        interval_s = config.heartbeat_interval_s
        if interval_s and now >= self._beat_at and self._node.role is not Role.SCHEDULER:
            self._beat_at = now + interval_s
            self._beat()
        if config.heartbeat_timeout_s:
            limit = now - config.heartbeat_timeout_s
            with self._lock:
                self._silent = frozenset(peer for peer, at in self._heard.items() if at < limit)

    def _beat(self) -> None:
        control = Control(Command.HEARTBEAT, (self._node.info,))
        meta = Meta(control=control, timestamp=self._node.next_control_timestamp())
        try:
            self._node.send(SCHEDULER_ID, meta, block=False)
        except (KVTimeout, KVConnectError):
            self._node.stats.undeliverable += 1
