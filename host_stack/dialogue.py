"""A worker's talk with the server: waits for answers, takes UPDATEs meanwhile, and asks again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import zmq

from host_stack.control import Answer, Head, Kind, Known, Request
from host_stack.errors import PushFailed
from host_stack.incarnation import Incarnation, Moved
from host_stack.inquiry import Inquiry
from host_stack.job import Job
from host_stack.kv.ids import server_id
from host_stack.kv.node import Node
from host_stack.kv.worker import KVWorker
from host_stack.transport import Received, Transport
from host_stack.updates import Updates

POLL_S = 0.1


class Dialogue:
    """All waiting of a worker; an answer that the job has moved on is raised as `Moved`."""

    def __init__(
        self, job: Job, node: Node, kv: KVWorker, transport: Transport, counters: Counter[str]
    ) -> None:
        """Talk over a node that is started before the first wait; count oddities in `counters`."""
        self._job = job
        self._node = node
        self._kv = kv
        self._transport = transport
        self._inquiry = Inquiry(kv, counters, lambda: node.reconnect(server_id(0)))
        self._poller: zmq.Poller | None = None
        self._is_given_up = False

    def give_up(self) -> None:
        """Let whatever waits in another thread end, soon, with `PushFailed`."""
        self._is_given_up = True

    def _go_on(self) -> None:
        if self._is_given_up:
            raise PushFailed("the worker was closed in the middle of a round")

    def enter(self, incarnation: Incarnation, updates: Updates) -> None:
        """Go on in an incarnation; hand UPDATEs to `updates`."""
        self._inquiry.cancel()
        self._incarnation = incarnation
        self._updates = updates

    def join(self, process: Request) -> Moved:
        """Join the job: where it stands.

        Raises:
            PushFailed: the server does not answer.
        """
        deadline = time.monotonic() + self._job.timeouts_s["commit"]
        while (answer := self._inquiry.poll(Head.JOIN, process, np.inf)) is None:
            self.receive()
            if time.monotonic() > deadline:
                raise self._silent("answer a JOIN", "it answered none")
        return self._moved(answer)

    def receive(self, timeout_s: float = POLL_S) -> None:
        """Take what comes within a time, at least what is there."""
        self._go_on()
        if self._poller is None:
            self._poller = zmq.Poller()
            for source in (self._node.socket, self._transport.fileno()):
                self._poller.register(source, zmq.POLLIN)
        self._poller.poll(math.ceil(timeout_s * 1000))
        self._node.process()
        received = self._transport.receive()
        while len(received):
            self.take(received)
            received = self._transport.receive()

    def take(self, received: Received) -> None:
        """Take the UPDATEs among datagrams that somebody else has received."""
        self._updates.take(received)

    def until(
        self,
        status: Request,
        condition: Callable[[], bool],
        resend: Callable[[Answer], bool],
        what: str,
    ) -> None:
        """Receive until a condition holds, and ask the server how things stand when it is late.

        `resend` is given each answer; where it returns true, the wait is over too. As long as
        rounds are committed, the others' work is waited for, whatever it takes.

        Raises:
            Moved: the server says so.
            PushFailed: it did not do `what`, nor commit a round, in time.
        """
        started = progress = time.monotonic()
        committed, heard = status.committed, "it answered no question"
        self._inquiry.cancel()
        while not condition():
            self.receive()
            now = time.monotonic()
            answer = self._inquiry.poll(Head.STATUS, status, now - started)
            if answer is not None:
                self.refuse_moved(answer)
                if not condition() and resend(answer):
                    return
                heard = f"its last answer, after {now - started:.0f} s, was {_said(answer)}"
                if answer.committed > committed:
                    progress, committed = now, answer.committed
            if now - progress > self._job.timeouts_s["commit"]:
                raise self._silent(what, heard)

    def while_stalled(self, status: Request) -> Callable[[float], None]:
        """What a hot push calls while it waits: says that it stalls, and raises `Moved`."""
        self._inquiry.cancel()

        def look_up(stalled_s: float) -> None:
            self._go_on()
            self._node.process()
            answer = self._inquiry.poll(Head.STALLED, status, stalled_s)
            if answer is not None:
                self.refuse_moved(answer)

        return look_up

    @contextmanager
    def forgetting(self, timestamps: list[int]) -> Iterator[None]:
        """Give up, at the end, the requests that are still open."""
        try:
            yield
        finally:
            for timestamp in timestamps:
                self._kv.forget(timestamp)

    def refuse_moved(self, answer: Answer) -> None:
        """Raise `Moved` if the answer says so."""
        if answer.kind is Kind.MOVED:
            raise self._moved(answer)

    def _moved(self, answer: Answer) -> Moved:
        known = self._incarnation
        incarnation = Incarnation.decode(answer.incarnation, known.version, known.placement)
        return Moved(incarnation, answer.steps, answer.committed)

    def _silent(self, what: str, heard: str) -> PushFailed:
        return PushFailed(
            f"the server at {self._job.server} did not {what} within "
            f"{self._job.timeouts_s['commit']:g} s; check that it and all other workers run; "
            f"{heard}"
        )


def _said(answer: Answer) -> str:
    """What an answer says, for an error."""
    known = " and ".join(each.name or "" for each in Known if each in answer.known) or "nothing"
    return f"{answer.kind.name}: {known} known, {answer.committed} rounds committed"
