"""The thread that tells controllers what the data plane noticed: digests and idle entries.

It also takes members of groups out of use whose watch port has no link. It waits for nothing but
the data plane's event and its own deadlines, and the data plane never waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from finsy.proto import p4r

from softswitch.link_state import link_is_up
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.turns import FairLock

LOGGER = logging.getLogger(__name__)

POLL_S = 0.2
"""Longest wait: links are looked at as often."""

Deliver = Callable[[p4r.StreamMessageResponse], None]


def notifies(pipeline: Pipeline) -> bool:
    """Return True when the pipeline has anything that the pump is for."""
    program = pipeline.dataplane.program
    return (
        bool(program.digests)
        or any(table.support_timeout for table in program.tables.values())
        or any(profile.selector is not None for profile in program.action_profiles.values())
    )


class NotificationPump:
    """The notifications of one running pipeline; `ports` maps port numbers to interfaces."""

    def __init__(
        self,
        pipeline: Pipeline,
        ports: Mapping[int, str],
        deliver: Deliver,
        writes: FairLock,
    ) -> None:
        self._dataplane = pipeline.dataplane
        self._digests = pipeline.digests
        self._idle = pipeline.idle
        self._ports = ports
        self._writes = writes
        self._deliver = deliver
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="p4runtime-notify", daemon=True)

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the data plane may be closed afterwards."""
        self._stop.set()
        self._dataplane.digests.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                wait_s = self._turn()
            except Exception:
                LOGGER.exception("a notification failed")
                wait_s = POLL_S
            self._dataplane.digests.wait(min(wait_s, POLL_S))

    def _turn(self) -> float:
        """Deliver what is due; return how many seconds the next turn may wait."""
        lists, digest_ns = self._digests.poll()
        for each in lists:
            self._deliver(p4r.StreamMessageResponse(digest=each))
        idle, idle_us = self._idle.poll()
        if idle:
            notification = p4r.IdleTimeoutNotification(table_entry=idle, timestamp=time.time_ns())
            self._deliver(p4r.StreamMessageResponse(idle_timeout_notification=notification))
        self._watch_ports()
        waits = [POLL_S]
        waits += [] if digest_ns is None else [digest_ns / 1e9]
        waits += [] if idle_us is None else [idle_us / 1e6]
        return min(waits)

    def _watch_ports(self) -> None:
        if not self._ports:  # in memory: every port is there
            return
        # While a Write is in progress, groups may name members that it holds back. Never wait for
        # it: who stops this thread may hold the lock.
        if not self._writes.acquire(blocking=False):
            return
        try:
            for profile in self._dataplane.profiles.values():
                for port in profile.watched_ports():
                    up = port in self._ports and link_is_up(self._ports[port])
                    profile.set_port_up(port, up)
        finally:
            self._writes.release()
