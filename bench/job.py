"""The job that the benchmarks put on a switch, through the controller's own code."""

from __future__ import annotations

from dataclasses import dataclass

from bench.frames import grads
from controller.artifacts import Artifact
from controller.counters import read_reasons
from controller.provision import connected, provision_job, provision_network
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from host_stack.codec import Bytes
from host_stack.errors import LibraError

JOB, SLOT, EPOCH, FRACTION_BITS = 1, 1, 1, 40
SERVER_PORT = 1
SWITCH, SWITCH_MAC, GROUP = "10.0.0.254", "02:00:0a:00:00:fe", "239.19.52.2"
MAX_WORKERS = 100


class NotAggregated(LibraError):
    """The switch answered, but did not add up what it was sent: the numbers mean nothing."""


def host(port: int) -> Attachment:
    """The host behind a port."""
    return Attachment(f"10.0.0.{port}", f"02:00:0a:00:00:{port:02x}", port)


@dataclass(frozen=True)
class BenchJob:
    """A job of `workers` workers behind ports 2…, with `rows` rows a lane."""

    artifact: Artifact
    workers: int = 1
    rows: int = 1024

    @property
    def ports(self) -> range:
        """The ports of the workers."""
        return range(SERVER_PORT + 1, SERVER_PORT + 1 + self.workers)

    def frames(self, rank: int, count: int, lanes: int | None = None) -> Bytes:
        """GRADs of a worker (see `bench.frames.grads`)."""
        return grads(
            self.artifact.layout,
            count,
            job=JOB,
            epoch=EPOCH,
            rank=rank,
            source=host(self.ports[rank]).address,
            server=host(SERVER_PORT).address,
            rows=self.rows,
            lanes=lanes,
            seed=1 + rank,
        )

    async def install(self, address: str, target: str, device_id: int = 1) -> None:
        """Load the program into a switch and install network and job over P4Runtime."""
        hosts = [host(SERVER_PORT), *(host(port) for port in self.ports)]
        membership = Membership(
            job=JOB,
            epoch=EPOCH,
            fraction_bits=FRACTION_BITS,
            slot=SLOT,
            row_base=0,
            rows=self.rows,
            workers=hosts[1:],
            server=hosts[0],
            group=GROUP,
            group_id=1,
        )
        kind = find_target(target)
        async with connected(address, kind, self.artifact, fresh=True, device_id=device_id) as sw:
            await provision_network(sw, Forward(SWITCH_MAC, hosts), Local(SWITCH))
            await provision_job(sw, membership, self.artifact)

    async def aggregated(self, address: str, target: str, device_id: int = 1) -> int:
        """How many packets the switch has added up; `NotAggregated` if it did anything else."""
        kind = find_target(target)
        async with connected(address, kind, self.artifact, fresh=False, device_id=device_id) as sw:
            reasons = await read_reasons(sw, SLOT)
        others = {name: n for name, n in reasons.items() if n and name != "aggregated"}
        if others:
            raise NotAggregated(f"{target}: packets were not aggregated: {others}")
        return reasons["aggregated"]
