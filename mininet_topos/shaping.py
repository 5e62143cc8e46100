"""Link rates: a token bucket (tc tbf) at the egress of both ends of a link.

tbf alone is used: kernels come without netem and fq, but tbf is everywhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mininet_topos.errors import BadTopology

MTU_BYTES = 1500
FRAME_BYTES = MTU_BYTES + 14  # what tbf counts of a full packet: with its Ethernet header
RATE_MIN_MBPS, RATE_MAX_MBPS = 0.1, 100_000.0
QUEUE_MIN_MS, QUEUE_MAX_MS = 1.0, 10_000.0
QUEUE_MIN_BYTES = 64 * 1024
_TC_LIMIT_MAX_BYTES = 2**32 - 1
# A bucket must hold what the rate brings between two wake-ups of the kernel's timer, else the
# rate is not reached. With high-resolution timers a millisecond does; a deeper bucket would let
# each round's burst through above the rate and falsify short rounds.
_BUCKET_S = 0.001


@dataclass(frozen=True)
class LinkShape:
    """The rate of a link, in each direction, and how long its queues are.

    Attributes:
        rate_mbps: in 10^6 bits of Ethernet frames a second.
        queue_ms: what a full queue takes to drain; at least 64 KiB are allowed.

    Raises:
        BadTopology: a number is out of range.

    """

    rate_mbps: float
    queue_ms: float = 100.0

    def __post_init__(self) -> None:
        _check("link rate", self.rate_mbps, RATE_MIN_MBPS, RATE_MAX_MBPS, "Mbit/s")
        _check("link queue", self.queue_ms, QUEUE_MIN_MS, QUEUE_MAX_MS, "ms")

    @property
    def rate_bps(self) -> int:
        """Bits a second."""
        return round(self.rate_mbps * 1e6)

    @property
    def burst_bytes(self) -> int:
        """Depth of the token bucket: a millisecond of the rate, at least two full frames."""
        return max(math.ceil(self.rate_bps / 8 * _BUCKET_S), 2 * FRAME_BYTES)

    @property
    def limit_bytes(self) -> int:
        """Bytes that wait at most before packets are dropped."""
        wanted = math.ceil(self.rate_bps / 8 * self.queue_ms / 1000)
        return min(max(wanted, QUEUE_MIN_BYTES), _TC_LIMIT_MAX_BYTES)

    def tc_line(self, interface: str) -> str:
        """Format the line for `tc -batch` that shapes the egress of an interface."""
        return (
            f"qdisc replace dev {interface} root tbf rate {self.rate_bps}bit "
            f"burst {self.burst_bytes} limit {self.limit_bytes}"
        )


def tc_batch(shapes: Mapping[str, LinkShape]) -> str:
    """Format the standard input for `tc -batch -` that shapes the egress of interfaces, by name."""
    return "".join(f"{shape.tc_line(interface)}\n" for interface, shape in shapes.items())


def _check(what: str, value: float, low: float, high: float, unit: str) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise BadTopology(f"{what} {value} {unit}: allowed is {low:g} to {high:g} {unit}")
