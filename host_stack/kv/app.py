"""SimpleApp: requests of a number and a few bytes between any two nodes, each answered once."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from host_stack.kv.errors import KVTimeout, KVUsageError
from host_stack.kv.ids import describe
from host_stack.kv.message import Message
from host_stack.kv.requests import Callback, RequestTable
from host_stack.kv.wire import Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node

_INT32_LIMIT = 1 << 31


def int32(name: str, value: Any) -> int:
    """A number for the metadata of a message; KVUsageError for what has no place there."""
    try:
        number = operator.index(value)
    except TypeError:
        raise KVUsageError(f"{name} = {value!r:.40} is not an integer") from None
    if not -_INT32_LIMIT <= number < _INT32_LIMIT:
        raise KVUsageError(f"{name} = {number} does not fit in 32 signed bits")
    return number


@dataclass(slots=True)
class SimpleRequest:
    """A request as the receiver sees it; keep it to answer later (a held response)."""

    head: int
    body: bytes
    sender: int
    timestamp: int
    customer_id: int
    answered: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class SimpleResponse:
    """The answer of one node to a request."""

    head: int
    body: bytes


SimpleHandle = Callable[[SimpleRequest, "SimpleApp"], None]
"""Serves a request; answers it with `SimpleApp.simple_response`."""


class SimpleApp:
    """One end of an app: (app_id, customer_id) on this node.

    On a server and on the scheduler there is one customer for each app.
    """

    def __init__(self, node: "Node", app_id: int = 0, customer_id: int = 0) -> None:
        """Attach to a node, before or after its `start`."""
        self.node = node
        """That it is attached to."""
        self.app_id = app_id
        self.customer_id = customer_id
        self._requests = RequestTable(node)
        self._simple_handle: SimpleHandle | None = None
        node.register_app(app_id, customer_id, self)

    def set_simple_handle(self, handle: SimpleHandle) -> None:
        """Call `handle(request, app)` for each simple request; it answers now or later.

        Requests that come before a handle is set wait for it.
        """
        self._simple_handle = handle
        self.node.handler_set()

    def request(
        self, head: int, body: bytes = b"", recv_id: int = 1, callback: Callback | None = None
    ) -> int:
        """Send (head, body) to a node or group; return the timestamp to `wait` for.

        `wait` returns a dictionary from node id to SimpleResponse. head is an int32.
        """
        number = int32("head", head)
        peers = self.node.members(recv_id)
        timestamp = self._requests.open("request", peers, _simple_response, dict, callback)
        meta = Meta(
            head=number,
            body=bytes(body),
            request=True,
            simple_app=True,
            app_id=self.app_id,
            customer_id=self.customer_id,
            timestamp=timestamp,
        )
        try:
            for peer in peers:
                self.node.send(peer, meta)
        except Exception:
            self._requests.forget(timestamp)
            raise
        return timestamp

    def simple_response(self, request: SimpleRequest, body: bytes = b"") -> bool:
        """Answer a simple request, once; False if the asking node does not take messages."""
        meta = Meta(
            head=request.head,
            body=bytes(body),
            simple_app=True,
            app_id=self.app_id,
            customer_id=request.customer_id,
            timestamp=request.timestamp,
        )
        return self._respond(request, meta)

    def wait(self, timestamp: int, timeout_s: float | None = None) -> Any:
        """Wait for a request of this app and return its result.

        Raises KVTimeout naming the nodes that did not answer within `timeout_s`; the request
        stays open, so `wait` may be called again, or `forget`.
        """
        return self._requests.wait(timestamp, timeout_s)

    def done(self, timestamp: int) -> bool:
        """Whether a request is complete, without blocking."""
        return self._requests.done(timestamp)

    def forget(self, timestamp: int) -> None:
        """Give a request up."""
        self._requests.forget(timestamp)

    def peer_returned(self, peer: int) -> None:
        """Note that a node was started anew: what it has not answered, nobody sends again."""
        if self.node.config.resend_timeout_s:
            self._requests.lose(peer)

    def accept(self, message: Message) -> bool:
        """Take a message from the node; False while no handle is set for it."""
        if not message.meta.request:
            self._requests.answered(message)
            return True
        if message.meta.simple_app:
            return self._accept_simple(message)
        return self._accept_data(message)

    def _accept_simple(self, message: Message) -> bool:
        if self._simple_handle is None:
            return False
        meta, peer = message.meta, message.peer or 0
        request = SimpleRequest(meta.head, meta.body, peer, meta.timestamp, meta.customer_id)
        try:
            self._simple_handle(request, self)
        except Exception as error:
            self._fails(f"the simple handle of a request of {describe(peer)}", error)
        return True

    def _fails(self, what: str, error: Exception) -> None:
        """Keep what a handle has raised for the next wait, or raise it in the owner's loop."""
        self.node.failures.keep(self.node.failures.note(what, error))

    def _accept_data(self, message: Message) -> bool:
        """Only a server handles key-value requests; elsewhere they have no meaning."""
        self.node.stats.unexpected_request += 1
        return True

    def _respond(self, request: Any, meta: Meta, arrays: tuple[Any, ...] = ()) -> bool:
        """Send the one answer to a request without ever waiting for its sender."""
        if request.answered:
            raise KVUsageError(
                f"request {request.timestamp} of node {request.sender} has been answered already"
            )
        request.answered = True
        try:
            self.node.send(request.sender, meta, arrays, block=False)
        except KVTimeout:
            self.node.stats.undeliverable += 1
            return False
        return True


def _simple_response(message: Message) -> SimpleResponse:
    return SimpleResponse(message.meta.head, message.meta.body)
