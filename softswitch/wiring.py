"""What is around the ports of a running switch: the faults of its links, and its captures.

A controller may replace the pipeline, and with it the data plane, at any time. What was asked for
here is then asked of the new one; packets are numbered, and counted, from 0 again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace

from softswitch.capture import CaptureOptions
from softswitch.dataplane import DataPlane
from softswitch.errors import InvalidArgument
from softswitch.faults import Direction, FaultRule, LinkFaults, expand
from softswitch.queues import Queue, read_queues

Json = dict[str, object]


class Wiring:
    """The links of a switch with the given ports. May be used from any thread."""

    def __init__(
        self,
        ports: Collection[int],
        faults: Mapping[tuple[int, Direction], LinkFaults] | None = None,
        capture: CaptureOptions | None = None,
    ) -> None:
        self._ports = frozenset(ports)
        self._lock = threading.Lock()
        self._faults = dict(faults or {})
        self._capture = capture
        self._dataplane: DataPlane | None = None

    def prepare(self, dataplane: DataPlane) -> None:
        """Put the links around a data plane that is about to run."""
        with self._lock:
            former, self._dataplane = self._dataplane, dataplane
            if self._capture is not None:
                if former is not None:
                    former.capture_stop()  # the files are now the other one's
                dataplane.capture_start(self._capture)
            for (port, direction), faults in self._faults.items():
                dataplane.set_link_faults(port, direction, faults)

    def set_faults(self, rule: FaultRule) -> None:
        """Set the faults of the rule's links, now and for pipelines to come.

        Raises InvalidArgument for a port that the switch has not.
        """
        with self._lock:
            for (port, direction), faults in expand([rule], self._ports).items():
                if self._dataplane is not None:
                    self._dataplane.set_link_faults(port, direction, faults)
                self._faults[port, direction] = faults

    def set_state(self, port: int | None, *, up: bool) -> None:
        """Cut the link of a port (None: of all ports) in both directions, or mend it.

        Raises InvalidArgument for a port that the switch has not.
        """
        if port is not None and port not in self._ports:
            have = ", ".join(map(str, sorted(self._ports))) or "none"
            raise InvalidArgument(f"no port {port}; ports are {have}")
        with self._lock:
            for number in sorted(self._ports) if port is None else (port,):
                if self._dataplane is not None:
                    self._dataplane.set_link_state(number, up=up)
                for direction in Direction:
                    known = self._faults.get((number, direction), LinkFaults())
                    self._faults[number, direction] = replace(known, down=not up)

    def stats(self) -> Json:
        """Return the counters of ports, drops and links as an object of JSON.

        Those of a data plane count from when its pipeline was committed; there are none before.
        With each port is what waits before its interface, and what found that queue full since
        the interface has it.
        """
        queues = read_queues()
        with self._lock:
            dataplane = self._dataplane
            if dataplane is None:
                return {
                    "pipeline": False,
                    "ports": [],
                    "drops": {},
                    "parser_errors": {},
                    "links": [],
                    "capture": {},
                }
            faults = dataplane.link_faults()
            ports = dataplane.port_stats()
            links = dataplane.link_stats()
            return {
                "pipeline": True,
                "ports": [
                    {
                        "port": port,
                        **asdict(stats),
                        **_queue(queues.get(stats.ifname, Queue())),
                    }
                    for port, stats in ports.items()
                ],
                "drops": dataplane.drop_stats(),
                "parser_errors": dataplane.parser_errors(),
                "capture": asdict(dataplane.capture_stats()) if self._capture else {},
                "links": [
                    {
                        "port": link[0],
                        "direction": str(link[1]),
                        "faults": str(faults[link]),
                        **asdict(stats),
                    }
                    for link, stats in links.items()
                ],
            }


def _queue(queue: Queue) -> Json:
    return {f"queue_{name}": value for name, value in asdict(queue).items()}
