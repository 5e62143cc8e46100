"""Jobs with several servers through one embedded switch, in memory, on networks with faults."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable

import pytest

from controller.artifacts import Artifact
from controller.counters import read_reasons
from controller.provision import connected, provision_job, provision_network
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from host_stack.job import Job
from host_stack.placement import Placement
from softswitch.p4runtime.server import P4RuntimeServer
from tests.job_in_memory import SWITCH, addresses, random_pushes
from tests.memory_network import Faults, MemoryNetwork
from tests.shards_in_memory import ShardsInMemory, server_of
from tests.test_job import NUM_KEYS, expected
from tests.test_switch_job import switch_server

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

SERVERS, WORKERS, ROWS = 2, 3, 64
HOSTS = [*map(server_of, range(SERVERS)), *addresses(WORKERS)]
PORTS = {address: port for port, address in enumerate(HOSTS, 1)}


def attachment(address: str) -> Attachment:
    """The host of an address; its MAC plays no part in memory."""
    return Attachment(address, "02:00:00:00:00:01", PORTS[address])


async def provision(address: str, job: Job, shard: int) -> None:
    """Install a shard as the controller does, behind those before it."""
    artifact = Artifact.load()
    async with connected(address, find_target("soft"), artifact, fresh=shard == 0) as switch:
        if shard == 0:
            hosts = list(map(attachment, HOSTS))
            await provision_network(switch, Forward("02:00:00:00:00:fe", hosts), Local(SWITCH))
        membership = Membership(
            job=job.job,
            epoch=job.epoch,
            fraction_bits=job.fraction_bits,
            slot=1 + shard,
            row_base=ROWS * shard,
            rows=ROWS,
            workers=list(map(attachment, job.workers)),
            server=attachment(job.server),
            group=job.group,
            group_id=1 + shard,
        )
        await provision_job(switch, membership, artifact)


async def reasons(address: str, shard: int) -> dict[str, int]:
    """The counters of a shard by reason."""
    async with connected(address, find_target("soft"), Artifact.load(), fresh=False) as switch:
        return await read_reasons(switch, 1 + shard)


class ThroughOneSwitch(ShardsInMemory):
    """All shards at one switch, in slots of their own."""

    def __init__(self, switch: P4RuntimeServer, hot: int, faults: Faults | None) -> None:
        self._switch = switch
        self.pushes = random_pushes(WORKERS, 4, NUM_KEYS, 900, seed=5, wild=0.001)
        super().__init__(self.pushes, NUM_KEYS, hot, SERVERS, faults)

    def network_of(
        self, shard: int, faults: Faults | None
    ) -> Callable[[Job, Placement], MemoryNetwork]:
        """Every host, around the switch."""

        def make(job: Job, _placement: Placement) -> MemoryNetwork:
            asyncio.run(provision(self._switch.address, job, shard))
            dataplane = self._switch.dataplane
            return MemoryNetwork(PORTS, job.group, list(job.workers), dataplane, faults)

        return make


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_two_servers_share_a_switch(loss: float) -> None:
    """It sums for both, each in its rows; packets are lost, doubled and late; same bits."""
    faults = Faults(loss=loss, duplication=loss, reordering=loss, seed=5)
    with switch_server() as switch:
        job = ThroughOneSwitch(switch, 2400, faults)
        assert job.run().tobytes() == expected(job.pushes).tobytes()
        for shard, each in enumerate(job.jobs):
            counts = asyncio.run(reasons(switch.address, shard))
            assert counts["aggregated"] > 0
            assert counts["drained"] > 0
            assert each.outcome.counters["drained_rows"] > 0
