"""Switches of several racks for tests, each summing for its own workers, drained in a chain."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from controller.artifacts import Artifact
from controller.counters import read_reasons
from controller.provision import connected, network_entities, provision_job, write
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from host_stack.codec import Codec, Records, drain_dtype, fill_header
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.transport import ipv4
from host_stack.wire import DrainFormat, Op
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.bmv2_switch import bmv2
from tests.memory_network import datagram, frame
from tests.switch_under_test import EPOCH, GROUP, JOB, SERVER, F, Out, Ports

SERVER_PORT = 1
MESH = 100
"""Port of a switch towards switch n: 100 + n."""


class _Embedded:
    """The ports of an embedded switch in memory."""

    def __init__(self, server: P4RuntimeServer) -> None:
        self._server = server

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Run a packet to its end."""
        assert self._server.dataplane is not None
        return self._server.dataplane.inject(port, packet)


class Chain:
    """Switches 0…n - 1, each linked to each; the server hangs at the last one, worker r at r mod n.

    A DRAIN visits the switches in this order. Slot and rows of the job differ from one to another.
    `lose` is asked for every packet on a link between switches whether it is lost there.
    """

    def __init__(self, ports: list[Ports], addresses: list[str], target: str, workers: int) -> None:
        self.artifact = Artifact.load()
        self.codec = Codec(self.artifact.layout)
        self.ports = ports
        self.addresses = addresses
        self.target = target
        self.workers = workers
        self.lose: Callable[[bytes], bool] = lambda raw: False
        self._seq = [1] * workers

    @property
    def count(self) -> int:
        """How many switches there are."""
        return len(self.ports)

    def ip(self, switch: int) -> str:
        """A switch's own address."""
        return f"10.0.1.{switch + 1}"

    def home_of(self, rank: int) -> int:
        """The switch at which a worker hangs."""
        return rank % self.count

    def slot(self, switch: int) -> int:
        """The job's slot there."""
        return 1 + switch

    def host(self, switch: int, address: str, home: int, port: int) -> Attachment:
        """A host as a switch sees it."""
        return Attachment(address, "02:00:0a:00:00:01", port if home == switch else MESH + home)

    def hosts(self, switch: int) -> list[Attachment]:
        """All hosts as a switch sees them: the server first."""
        last = self.count - 1
        found = [self.host(switch, SERVER, last, SERVER_PORT)]
        for rank in range(self.workers):
            found.append(self.host(switch, f"10.0.0.{2 + rank}", self.home_of(rank), 2 + rank))
        return found

    def membership(self, switch: int) -> Membership:
        """The job as a switch has it."""
        server, *workers = self.hosts(switch)
        before = None
        if switch:
            before = Attachment(self.ip(switch - 1), "02:00:0a:00:00:fe", MESH + switch - 1)
        return Membership(
            job=JOB,
            epoch=EPOCH,
            fraction_bits=F,
            slot=self.slot(switch),
            row_base=64 * (self.count - switch),
            rows=64,
            workers=workers,
            server=server,
            group=GROUP,
            group_id=1,
            elsewhere=[rank for rank in range(self.workers) if self.home_of(rank) != switch],
            before=before,
        )

    async def provision(self) -> None:
        """Load the program and install network and job on each."""
        target = find_target(self.target)
        for switch, address in enumerate(self.addresses):
            others = [
                Attachment(self.ip(other), "02:00:0a:00:00:fe", MESH + other)
                for other in range(self.count)
                if other != switch
            ]
            forward = Forward("02:00:0a:00:00:fe", self.hosts(switch))
            async with connected(address, target, self.artifact, fresh=True) as connection:
                p4info, local = connection.p4info, Local(self.ip(switch))
                await write(connection, network_entities(p4info, forward, local, others))
                await provision_job(connection, self.membership(switch), self.artifact)

    def reasons(self, switch: int) -> dict[str, int]:
        """The counters by reason of a switch."""

        async def read() -> dict[str, int]:
            address, target = self.addresses[switch], find_target(self.target)
            async with connected(address, target, self.artifact, fresh=False) as connection:
                return await read_reasons(connection, self.slot(switch))

        return asyncio.run(read())

    # -- packets ----------------------------------------------------------------------------

    def send(
        self, switch: int, port: int, destination: str, payload: bytes, source: str
    ) -> list[Out]:
        """Send a datagram into a port of a switch; return what comes out at hosts."""
        found = self.carry(switch, port, frame(source, destination, payload))
        return [Out(leaving, *datagram(raw)) for leaving, raw in found]

    def carry(self, switch: int, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a frame into a port of a switch; return what comes out at hosts, with its port."""
        out = []
        waiting = deque([(switch, port, packet)])
        while waiting:
            at, entry, raw = waiting.popleft()
            for leaving, sent in self.ports[at].inject(entry, raw):
                if leaving < MESH:
                    out.append((leaving, sent))
                elif not self.lose(sent):
                    waiting.append((leaving - MESH, MESH + at, sent))
        return out

    def grad(
        self, rank: int, row: int, lanes: np.ndarray, values: np.ndarray, round_: int = 0
    ) -> Records:
        """One GRAD with gradients at lanes of a row."""
        record = self.codec.encode_grads(
            np.zeros(len(lanes), np.intp), lanes, np.full(len(lanes), row), values, 1
        )
        fill_header(record["header"], Op.GRAD, job=JOB, worker=rank, tag=make_tag(EPOCH, round_))
        record["header"]["seq"] = self._seq[rank]
        self._seq[rank] += 1
        return record

    def push(self, rank: int, record: Records) -> list[Out]:
        """Send a GRAD from its worker to the server's address."""
        source = f"10.0.0.{2 + rank}"
        return self.send(self.home_of(rank), 2 + rank, SERVER, record.tobytes(), source)

    def drain(
        self,
        row: int,
        rows: int = 1,
        form: DrainFormat = DrainFormat.FLOAT32,
        round_: int = 0,
        second: int = 0,
        mask: int = 0,
    ) -> list[Out]:
        """Ask for rows of all switches as the server does."""
        record = self.request(row, rows, form, round_, second, mask)
        last = self.count - 1
        return self.send(last, SERVER_PORT, self.ip(0), record.tobytes(), SERVER)

    def request(
        self, row: int, rows: int, form: DrainFormat, round_: int, second: int = 0, mask: int = 0
    ) -> Records:
        """The DRAIN of `drain`."""
        record = np.zeros(1, drain_dtype(self.count - 1))
        tag = make_tag(EPOCH, round_)
        fill_header(record["header"], Op.DRAIN, job=JOB, worker=SERVER_RANK, tag=tag)
        record["row"], record["rows"], record["format"] = row, rows, form
        record["header"]["seq"] = second << 16 | mask
        record["hops"] = self.count - 1
        record["path"] = [ipv4(self.ip(switch)) for switch in range(1, self.count)]
        return record

    def drained(self, out: Out) -> Records:
        """The DRAINED record in a datagram, padded to its longest form."""
        data = np.zeros(self.codec.drained.itemsize, np.uint8)
        data[: len(out.payload)] = np.frombuffer(out.payload, np.uint8)
        record = data.view(self.codec.drained)
        assert self.codec.drained_lengths(record)[0] == len(out.payload)
        return record

    def answer(self, out: Out, form: DrainFormat) -> dict[int, int]:
        """Lane to the sum in it, or to the bits of its float32."""
        record = self.drained(out)
        assert record["format"][0] == form
        cells = self.codec.decode_drained(record, form)
        found = cells.sums if cells.values is None else cells.values.view(np.uint32)
        assert found is not None
        return dict(zip(cells.lanes.tolist(), found.tolist(), strict=True))


@contextmanager
def chain_of(target: str, switches: int, workers: int, folder: Path) -> Iterator[Chain]:
    """So many switches of a target, provisioned."""
    ports: list[Ports] = []
    addresses = []
    with ExitStack() as stack:
        if target == "soft":
            DataPlane.load(Artifact.load().device_config).close()
        for number in range(switches):
            if target == "soft":
                server = stack.enter_context(P4RuntimeServer("127.0.0.1:0"))
                ports.append(_Embedded(server))
                addresses.append(server.address)
            else:
                at, address = stack.enter_context(bmv2(folder / f"bmv2-{number}.log"))
                ports.append(at)
                addresses.append(address)
        chain = Chain(ports, addresses, target, workers)
        asyncio.run(chain.provision())
        yield chain
