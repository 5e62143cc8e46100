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
"""How long the server may be silent before the connection is made anew; then twice as long.

While the network is cut, TCP waits longer and longer before it sends again: when the network is
back, its next attempt may be as far away as the cut was long. A new connection begins at once.
"""

MAX_RECONNECT_S = 8.0


class Inquiry:
    """One question at a time; the interval grows while the server stays silent."""

    def __init__(self, kv: KVWorker, counters: Counter[str], reconnect: Callable[[], None]) -> None:
        """Count answers that could not be read in `counters`; `reconnect` to a silent server."""
        self._kv = kv
        self._reconnect = reconnect
        self._counters = counters
        self._timestamp: int | None = None
        self._sent_at = 0.0
        self._every_s = EVERY_S
        self._reconnect_at = 0.0
        self._reconnect_s = RECONNECT_S

    def poll(self, head: Head, request: Request, stalled_s: float) -> Answer | None:
        """Ask if it is time to; the answer to the last question, once, or None."""
        now = time.monotonic()
        answer = self._take()
        if answer is None and stalled_s > AFTER_S and now - self._sent_at > self._every_s:
            if self._timestamp is None:
                self._every_s = EVERY_S
                self._reconnect_s = RECONNECT_S
                self._reconnect_at = now + RECONNECT_S
            else:
                self._every_s = min(MAX_EVERY_S, 2 * self._every_s)
                self.cancel()
            if now >= self._reconnect_at:
                self._reconnect_s = min(MAX_RECONNECT_S, 2 * self._reconnect_s)
                self._reconnect_at = now + self._reconnect_s
                self._reconnect()
            self._timestamp = self._kv.request(head, request.encode(), server_id(0))
            self._sent_at = now
        return answer

    def cancel(self) -> None:
        """Give up the question that is open: its answer would be about something else."""
        if self._timestamp is not None:
            self._kv.forget(self._timestamp)
            self._timestamp = None

    def _take(self) -> Answer | None:
        if self._timestamp is None or not self._kv.done(self._timestamp):
            return None
        timestamp, self._timestamp = self._timestamp, None
        self._every_s = EVERY_S
        return read_answer(self._kv, timestamp, self._counters)


def read_answer(kv: KVWorker, timestamp: int, counters: Counter[str]) -> Answer | None:
    """The server's answer to a request that is complete; None, and counted, if it is none."""
    try:
        return Answer.decode(kv.wait(timestamp, 0.0)[server_id(0)].body)
    except BadInput:
        counters["bad_answer"] += 1
        return None
