"""Which app of a node a message is for; requests that come too early wait for their handler."""

from typing import Protocol

from host_stack.kv.config import KVConfig
from host_stack.kv.errors import KVUsageError
from host_stack.kv.ids import Role
from host_stack.kv.message import Message
from host_stack.kv.stats import NodeStats
from host_stack.kv.wire import EMPTY

MAX_EARLY_MESSAGES = 1024


class App(Protocol):
    """What a node delivers messages to."""

    def accept(self, message: Message) -> bool:
        """Take one message addressed to this app; False while no handler for it is set."""

    def peer_returned(self, peer: int) -> None:
        """Note that a node was started anew."""


class Inbox:
    """The apps of a node, by the numbers that messages bear, and the requests without one yet."""

    def __init__(self, config: KVConfig, stats: NodeStats) -> None:
        """Have no app."""
        self._is_worker = config.role is Role.WORKER
        self._max_early_bytes = config.max_frame_bytes
        self._stats = stats
        self._apps: dict[tuple[int, int], App] = {}
        self._early: list[Message] = []
        self._early_bytes = 0

    def register(self, app_id: int, customer_id: int, app: App) -> None:
        """Deliver messages of (app_id, customer_id) to an app; one app for each pair."""
        key = self._key(app_id, customer_id)
        if key in self._apps:
            raise KVUsageError(f"app {key[0]} already has a customer {key[1]} on this node")
        self._apps[key] = app

    def peer_returned(self, peer: int) -> None:
        """Tell all apps that a node was started anew."""
        for app in list(self._apps.values()):
            app.peer_returned(peer)

    def deliver(self, message: Message) -> None:
        """Give a message to its app, or keep it."""
        if message.meta.timestamp == EMPTY:  # nobody could tell what an answer is to
            self._stats.malformed += 1
            return
        app = self._apps.get(self._key(message.meta.app_id, message.meta.customer_id))
        if app is None or not app.accept(message):
            self._keep_early(message)

    def take_early(self) -> list[Message]:
        """What was kept; it may be delivered again now."""
        early, self._early, self._early_bytes = self._early, [], 0
        return early

    def _key(self, app_id: int, customer_id: int) -> tuple[int, int]:
        """Servers and the scheduler have one customer for each app, named after it."""
        return app_id, customer_id if self._is_worker else app_id

    def _keep_early(self, message: Message) -> None:
        """Keep a request that came before its handler was set, as long as there is room."""
        size_bytes = sum(array.nbytes for array in message.data) + len(message.meta.body)
        if (
            not message.meta.request
            or len(self._early) >= MAX_EARLY_MESSAGES
            or self._early_bytes + size_bytes > self._max_early_bytes
        ):
            self._stats.unknown_customer += 1
            return
        self._early.append(message)
        self._early_bytes += size_bytes
