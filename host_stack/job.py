"""The description of a job that the controller gives to workers and server."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.jsonfile import read_json_object
from host_stack.layout import MAX_EPOCH, MAX_KEYS, MAX_WORKERS, Layout
from host_stack.transport import ipv4

DEFAULT_TIMEOUTS_S: Final = {"push": 30.0, "drain": 30.0, "commit": 60.0}
"""Seconds without progress after which a push, a drain or the wait for a commit fails: longer than
a switch that has died takes to be loaded and set up again.

So long as for a commit the nodes of a job also wait for each other when it begins and ends.
"""

MULTICAST_PREFIX = 0xE
"""The upper four bits of an IPv4 multicast address."""


@dataclass(frozen=True)
class Job:
    """What workers and server of a job must know.

    Attributes:
        job: identifier on the wire, 1…65535.
        epoch: incarnation on the switch, 1…4095.
        fraction_bits: F, the fixed-point scale.
        num_keys: keys are 0…num_keys - 1.
        layout: sizes of the switch program.
        workers: IPv4 addresses by rank.
        server: IPv4 address of the parameter server.
        switch: IPv4 address of the switch at which the server hangs: drains end there.
        group: IPv4 multicast group of UPDATEs.
        scheduler: address and port of the ps-lite scheduler.
        transport: "batch" (the fast path) or "scapy".
        drain_digits: drain all rows as digits, since a switch of the job cannot round to float32.
        timeouts_s: as `DEFAULT_TIMEOUTS_S`.
        key_file: path, on every host, of the key that encrypts the cold path; empty for none.
    """

    job: int
    epoch: int
    fraction_bits: int
    num_keys: int
    layout: Layout
    workers: tuple[str, ...]
    server: str
    switch: str
    group: str
    scheduler: tuple[str, int]
    transport: str = "batch"
    drain_digits: bool = False
    timeouts_s: dict[str, float] = field(default_factory=lambda: dict(DEFAULT_TIMEOUTS_S))
    key_file: str = ""

    def __post_init__(self) -> None:
        for name in ("job", "epoch", "fraction_bits", "num_keys"):
            if type(value := getattr(self, name)) is not int:
                raise BadInput(f"{name} {value!r}: it must be an integer")
        if type(self.key_file) is not str:
            raise BadInput(f"key_file {self.key_file!r}: it must be the path of a file")
        if type(self.drain_digits) is not bool:
            raise BadInput(f"drain_digits {self.drain_digits!r}: allowed are true and false")
        if not 0 < self.job <= 0xFFFF:
            raise BadInput(f"job {self.job}: allowed are 1 to 65535")
        if not 0 < self.epoch <= MAX_EPOCH:
            raise BadInput(f"epoch {self.epoch}: allowed are 1 to {MAX_EPOCH}")
        if not 0 < len(self.workers) <= MAX_WORKERS:
            raise BadInput(f"{len(self.workers)} workers: allowed are 1 to {MAX_WORKERS}")
        if not 0 < self.num_keys <= MAX_KEYS:
            raise BadInput(f"{self.num_keys} keys: allowed are 1 to {MAX_KEYS}")
        check_fraction_bits(self.fraction_bits)
        self._check_addresses()
        self._check_timeouts()

    def worker_address(self, rank: int) -> str:
        """The address of a worker; `BadInput` if the job has no such rank."""
        if not 0 <= rank < len(self.workers):
            raise BadInput(f"rank {rank}: the job has workers 0 to {len(self.workers) - 1}")
        return self.workers[rank]

    def rank_of(self, address: str) -> int:
        """The rank of the worker at an address; `BadInput` if the job has none there."""
        if address not in self.workers:
            raise BadInput(
                f"address {address!r}: the workers of the job are at {', '.join(self.workers)}"
            )
        return self.workers.index(address)

    def at(self, epoch: int, fraction_bits: int) -> Job:
        """The same job in another epoch, with its scale."""
        return replace(self, epoch=epoch, fraction_bits=fraction_bits)

    def _check_addresses(self) -> None:
        hosts = Counter((*self.workers, self.server, self.switch))
        for address in (*hosts, self.group):
            ipv4(address)
        address, owners = hosts.most_common(1)[0]
        if owners > 1:
            raise BadInput(f"{address} is the address of {owners} workers, servers or switches")
        if ipv4(self.group) >> 28 != MULTICAST_PREFIX:
            raise BadInput(f"group {self.group}: allowed are 224.0.0.0 to 239.255.255.255")
        if not 0 < self.scheduler[1] <= 0xFFFF:
            raise BadInput(f"port {self.scheduler[1]} of the scheduler: allowed are 1 to 65535")

    def _check_timeouts(self) -> None:
        if not isinstance(self.timeouts_s, dict):
            raise BadInput(f"time-outs {self.timeouts_s!r}: a name and seconds each are needed")
        if set(self.timeouts_s) != set(DEFAULT_TIMEOUTS_S):
            raise BadInput(
                f"time-outs {', '.join(self.timeouts_s)}: needed are "
                f"{', '.join(DEFAULT_TIMEOUTS_S)}"
            )
        for name, seconds in self.timeouts_s.items():
            if not 0 < seconds < math.inf:
                raise BadInput(f"time-out {name} of {seconds} s: it must be above 0 and finite")

    def save(self, path: Path) -> None:
        """Write the job as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read a job file; `BadInput` names what is wrong with it."""
        return cls.from_fields(read_json_object(path, "job file"), path)

    @classmethod
    def from_fields(cls, fields: dict[str, Any], path: Path) -> Job:
        """A job of decoded JSON, out of a file that is named in errors: `BadInput`."""
        if "shards" in fields:
            raise BadInput(f"{path} is of a job with several servers: one server's is needed")
        try:
            host, port = fields["scheduler"]
            if type(port) is not int:
                raise ValueError(f"the scheduler's port is {port!r}, not an integer")
            return cls(
                **{
                    **fields,
                    "layout": Layout.from_fields(fields["layout"]),
                    "workers": tuple(fields["workers"]),
                    "scheduler": (str(host), port),
                }
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is not a job file: {error}") from error
