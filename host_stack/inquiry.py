"""A worker's questions to the server: sent again until answered, whoever is restarted meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from host_stack.control import Answer, Head, Request
from host_stack.errors import BadInput
from host_stack.kv.ids import server_id
from host_stack.kv.worker import KVWorker

AFTER_S = 0.3
"""How long nothing may move before the worker asks how things stand."""

EVERY_S = 0.5
"""Between questions; how long the first answer is waited for, each further one twice as long."""

MAX_EVERY_S = 2.0

RECONNECT_S = 2.0
"""How long the server may be silent before the connection is made anew; then twice as long, until
something else is waited for: each new connection throws away what is on its way over a slow link.

While the network is cut, TCP waits longer and longer before it sends again: when the network is
back, its next attempt may be as far away as the cut was long. A new connection begins at once.
"""

MAX_RECONNECT_S = 32.0
"""Longer than an answer with a placement takes to all workers of a job over a slow link."""


class Inquiry:
    """One question at a time; the interval grows while the server stays silent.

    Whichever answer comes first is taken: one that takes longer than the interval is not waited
    for in vain.
    """

    def __init__(self, kv: KVWorker, counters: Counter[str], reconnect: Callable[[], None]) -> None:
        """Count answers that could not be read in `counters`; `reconnect` to a silent server."""
        self._kv = kv
        self._reconnect = reconnect
        self._counters = counters
        self._asked: list[int] = []
        self._sent_at = 0.0
        self._every_s = EVERY_S
        self._reconnect_at = 0.0
        self._reconnect_s = RECONNECT_S

    def poll(self, head: Head, request: Request, stalled_s: float) -> Answer | None:
        """Ask if it is time to; the answer to the last question, once, or None."""
        now = time.monotonic()
        answer = self._take()
        if answer is None and stalled_s > AFTER_S and now - self._sent_at > self._every_s:
            if self._asked:
                self._every_s = min(MAX_EVERY_S, 2 * self._every_s)
            else:
                self._every_s = EVERY_S
                self._reconnect_at = now + self._reconnect_s
            if now >= self._reconnect_at:
                self._reconnect_s = min(MAX_RECONNECT_S, 2 * self._reconnect_s)
                self._reconnect_at = now + self._reconnect_s
                self._reconnect()
            self._asked.append(self._kv.request(head, request.encode(), server_id(0)))
            self._sent_at = now
        return answer

    def cancel(self) -> None:
        """Begin another wait: the answer to an open question would be about the last one."""
        self._forget()
        self._reconnect_s = RECONNECT_S

    def _forget(self) -> None:
        for timestamp in self._asked:
            self._kv.forget(timestamp)
        self._asked.clear()

    def _take(self) -> Answer | None:
        timestamp = next((each for each in self._asked if self._kv.done(each)), None)
        if timestamp is None:
            return None
        self._asked.remove(timestamp)
        self._forget()
        self._every_s = EVERY_S
        return read_answer(self._kv, timestamp, self._counters)


def read_answer(kv: KVWorker, timestamp: int, counters: Counter[str]) -> Answer | None:
    """The server's answer to a request that is complete; None, and counted, if it is none."""
    try:
        return Answer.decode(kv.wait(timestamp, 0.0)[server_id(0)].body)
    except BadInput:
        counters["bad_answer"] += 1
        return None
