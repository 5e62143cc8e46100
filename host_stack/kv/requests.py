"""Requests in flight: who still has to answer, and what has come back."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from host_stack.kv.errors import KVError, KVNodeLost, KVTimeout, KVUsageError
from host_stack.kv.ids import describe
from host_stack.kv.message import Array, Message
from host_stack.kv.wire import Meta

if TYPE_CHECKING:
    from host_stack.kv.node import Node

FIRST_MAX = 1 << 30
"""Timestamps are of 32 bits, with a sign."""

Callback = Callable[[], None]
"""Runs when a request is complete."""
Answer = Callable[[Message], Any]
Finish = Callable[[dict[int, Any]], Any]


@dataclass(frozen=True, slots=True)
class Again:
    """What `on_answer` returns of a request that the peer has not done: send this in its place."""

    meta: Meta
    arrays: tuple[Array, ...]


class _Request:
    """One request to a set of nodes."""

    __slots__ = (
        *("answers", "callback", "complete", "error", "finish", "label", "on_answer", "open"),
        "timestamps",
    )

    def __init__(
        self, label: str, peers: Iterable[int], on_answer: Answer, finish: Finish | None
    ) -> None:
        self.label = label
        # Who has still to answer, and to which timestamp.
        self.open = dict.fromkeys(peers, 0)
        self.timestamps: list[int] = []
        self.on_answer = on_answer
        self.finish = finish
        self.callback: Callback | None = None
        self.answers: dict[int, Any] = {}
        self.error: KVError | None = None
        self.complete = False


class RequestTable:
    """The requests of one app, by timestamp.

    Timestamps count from 0; those of a process that takes the place of one that died from a number
    of its own, for answers to the dead one's requests may still be on their way to the id that it
    has now. A request that leaves nothing to fetch (`finish` is None) and has
    succeeded is dropped as soon as it is complete, the others when `wait` has returned.
    """

    def __init__(self, node: "Node") -> None:
        """Start with no request."""
        self._node = node
        self._next = 0
        self._requests: dict[int, _Request] = {}

    def open(
        self,
        label: str,
        peers: Iterable[int],
        on_answer: Answer,
        finish: Finish | None = None,
        callback: Callback | None = None,
    ) -> int:
        """Enter a request before it is sent; return its timestamp.

        `on_answer` turns each response into what is kept of it; `finish` turns those, by node
        id, into the result of `wait`; `callback` runs before the request counts as complete.
        """
        request = _Request(label, peers, on_answer, finish)
        request.callback = callback
        with self._node.condition:
            if not self._next and self._node.roster and self._node.info.is_recovery:
                self._next = 1 + secrets.randbelow(FIRST_MAX)
            return self._enter(request, tuple(request.open))

    def _enter(self, request: _Request, peers: Iterable[int]) -> int:
        """Expect answers of peers under a timestamp of their own."""
        timestamp = self._next
        self._next += 1
        self._requests[timestamp] = request
        request.timestamps.append(timestamp)
        request.open.update(dict.fromkeys(peers, timestamp))
        return timestamp

    def settle_empty(self, timestamp: int) -> None:
        """Complete a request that had to be sent to nobody."""
        with self._node.condition:
            request = self._requests[timestamp]
        if not request.open:
            self._complete(request)

    def answered(self, message: Message) -> None:
        """Take a response; one that nobody waits for is counted and dropped."""
        timestamp, peer = message.meta.timestamp, message.peer
        with self._node.condition:
            request = self._requests.get(timestamp)
            if request is None or peer is None or request.open.get(peer) != timestamp:
                self._node.stats.unexpected_response += 1
                return
        try:
            answer = request.on_answer(message)
            if isinstance(answer, Again):
                self._send_again(request, peer, answer)
                return
            request.answers[peer] = answer
        except KVError as error:
            request.error = request.error or error
        self._settle(request, peer)

    def _send_again(self, request: _Request, peer: int, again: Again) -> None:
        """Send what a peer has not done; it is another message, with a timestamp of its own.

        A resender at the other end would drop a second one with the same.
        """
        with self._node.condition:
            if request.timestamps[0] not in self._requests:
                return  # given up meanwhile
            timestamp = self._enter(request, (peer,))
        self._node.stats.keys_lacking += 1
        self._node.send(peer, again.meta._replace(timestamp=timestamp), again.arrays)

    def _complete(self, request: _Request) -> None:
        if request.callback is not None and request.error is None:
            self._call_back(request, request.callback)
        with self._node.condition:
            request.complete = True
            if request.finish is None and request.error is None:
                self._drop(request)
            self._node.condition.notify_all()

    def _call_back(self, request: _Request, callback: Callback) -> None:
        """Run a callback; where nobody else hears of what it raises, `wait` does."""
        try:
            callback()
        except Exception as error:
            what = f"the callback of {request.label} {request.timestamps[0]}"
            failure = self._node.failures.note(what, error)
            request.error = error if isinstance(error, KVError) else failure

    def done(self, timestamp: int) -> bool:
        """Whether a request is complete (successfully or not), without blocking."""
        request = self._find(timestamp)
        return request is None or request.complete

    def wait(self, timestamp: int, timeout_s: float | None) -> Any:
        """Wait for a request and return its result (None if there is none, or it was taken).

        Raises KVTimeout naming the silent nodes (the request stays open: wait again or
        `forget` it), or the error that a response caused.
        """
        request = self._find(timestamp)
        if request is None:
            return None
        self._node.failures.raise_kept()
        limit_s = self._node.config.wait_timeout_s if timeout_s is None else timeout_s

        def lost() -> frozenset[int]:
            return self._node.lost & request.open.keys()

        if not self._node.wait_until(lambda: request.complete or bool(lost()), limit_s):
            with self._node.condition:
                silent = tuple(sorted(request.open))
            raise KVTimeout(
                f"{request.label} {timestamp}: no answer after {limit_s:g} s from "
                f"{', '.join(map(describe, silent))}",
                silent,
            )
        if not request.complete:
            gone = tuple(sorted(lost()))
            raise KVNodeLost(
                f"{request.label} {timestamp}: {', '.join(map(describe, gone))} is lost: it is "
                "silent, or acknowledges nothing",
                gone,
            )
        self.forget(timestamp)
        if request.error is not None:
            raise request.error
        return None if request.finish is None else request.finish(request.answers)

    def forget(self, timestamp: int) -> None:
        """Give a request up; answers that still come are counted and dropped."""
        with self._node.condition:
            request = self._requests.get(timestamp)
            if request is not None:
                self._drop(request)

    def lose(self, peer: int) -> None:
        """Fail what a peer had not answered when it was started anew."""
        with self._node.condition:
            requests = [each for each in self._requests.values() if peer in each.open]
        for request in dict.fromkeys(requests):
            lost = f"{describe(peer)} was started anew and has not answered before"
            request.error = request.error or KVNodeLost(
                f"{request.label} {request.timestamps[0]}: {lost}; what it had is lost unless the "
                "program has a way to bring it back",
                (peer,),
            )
            self._settle(request, peer)

    def _settle(self, request: _Request, peer: int) -> None:
        """Note that nothing more is expected of a peer."""
        with self._node.condition:
            request.open.pop(peer, None)
            complete = not request.open
        if complete:
            self._complete(request)

    def _drop(self, request: _Request) -> None:
        for timestamp in request.timestamps:
            self._requests.pop(timestamp, None)

    def _find(self, timestamp: int) -> _Request | None:
        with self._node.condition:
            if not 0 <= timestamp < self._next:
                raise KVUsageError(
                    f"no request has timestamp {timestamp}; {self._next} have been made so far"
                )
            return self._requests.get(timestamp)
