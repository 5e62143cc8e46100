"""A provisioned switch for tests, the same for every target: packets in, packets out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from controller.artifacts import Artifact
from controller.counters import read_reasons
from controller.provision import connected, provision_job, provision_network
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from host_stack.codec import DRAIN, PROBE, Codec, Records, fill_header
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.wire import DrainFormat, Op
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.memory_network import datagram, frame

JOB, SLOT, EPOCH = 1, 1, 1
SERVER, SWITCH, GROUP = "10.0.0.1", "10.0.0.254", "239.19.52.2"
SERVER_PORT = 1
F = 40
"""Fraction bits of tests."""


class Ports(Protocol):
    """A switch seen from its ports."""

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a packet into a port; return what comes out, as (port, packet)."""


@dataclass
class Out:
    """A datagram that came out of the switch."""

    port: int
    source: str
    destination: str
    payload: bytes


@dataclass
class SwitchUnderTest:
    """A switch with a job of `workers` workers behind ports 2…, and the packets to drive it."""

    ports: Ports
    artifact: Artifact
    address: str
    target: str
    fraction_bits: int
    workers: int

    def __post_init__(self) -> None:
        self.codec = Codec(self.artifact.layout)
        self._rounds = itertools.count()
        self._seq = [1] * self.workers

    def dataplane(self) -> DataPlane:
        """The data plane of an embedded switch."""
        assert isinstance(self.ports, _InMemory)
        return self.ports.dataplane()

    def membership(self) -> Membership:
        """The job as the controller installs it."""
        return Membership(
            job=JOB,
            epoch=EPOCH,
            fraction_bits=self.fraction_bits,
            slot=SLOT,
            row_base=0,
            rows=64,
            workers=[self.host(2 + rank) for rank in range(self.workers)],
            server=self.host(SERVER_PORT),
            group=GROUP,
            group_id=1,
        )

    @staticmethod
    def host(port: int) -> Attachment:
        """The host behind a port."""
        return Attachment(f"10.0.0.{port}", f"02:00:0a:00:00:{port:02x}", port)

    async def provision(self) -> None:
        """Load the program and install network and job."""
        hosts = [self.host(1 + index) for index in range(self.workers + 1)]
        target = find_target(self.target)
        async with connected(self.address, target, self.artifact, fresh=True) as switch:
            forward = Forward("02:00:0a:00:00:fe", hosts)
            await provision_network(switch, forward, Local(SWITCH))
            await provision_job(switch, self.membership(), self.artifact)

    def reasons(self) -> dict[str, int]:
        """The counters by reason, read over P4Runtime."""

        async def read() -> dict[str, int]:
            target = find_target(self.target)
            async with connected(self.address, target, self.artifact, fresh=False) as switch:
                return await read_reasons(switch, SLOT)

        return asyncio.run(read())

    def next_round(self) -> int:
        """The number of a round that was not used before."""
        return next(self._rounds)

    # -- packets ----------------------------------------------------------------------------

    def send(self, port: int, destination: str, payload: bytes, **ip: Any) -> list[Out]:
        """Send a datagram of the host behind `port`; return what comes out."""
        source = ip.pop("source", f"10.0.0.{port}")
        packets = self.ports.inject(port, frame(source, destination, payload, **ip))
        return [Out(out, *datagram(raw)) for out, raw in packets]

    def grad(
        self,
        rank: int,
        rows: np.ndarray,
        values: np.ndarray,
        round_: int = 0,
        seq: int | None = None,
        lanes: np.ndarray | None = None,
    ) -> Records:
        """One GRAD with gradient i in lane i, or lanes[i], at rows[i]."""
        lanes = np.arange(len(values)) if lanes is None else lanes
        record = self.codec.encode_grads(
            np.zeros(len(values), np.intp), lanes, np.asarray(rows), values, 1
        )
        fill_header(record["header"], Op.GRAD, job=JOB, worker=rank, tag=make_tag(EPOCH, round_))
        if seq is None:
            seq = self._seq[rank]
            self._seq[rank] += 1
        record["header"]["seq"] = seq
        return record

    def push(self, rank: int, record: Records) -> list[Out]:
        """Send a GRAD from its worker to the server's address."""
        return self.send(2 + rank, SERVER, record.tobytes())

    def drain(
        self,
        row: int,
        rows: int = 1,
        form: DrainFormat = DrainFormat.DIGITS,
        round_: int = 0,
        second: int = 0,
        mask: int = 0,
    ) -> list[Out]:
        """Ask for rows as the server does; with a mask, for second cells as well."""
        record = np.zeros(1, DRAIN)
        tag = make_tag(EPOCH, round_)
        fill_header(record["header"], Op.DRAIN, job=JOB, worker=SERVER_RANK, tag=tag)
        record["row"], record["rows"], record["format"] = row, rows, form
        record["header"]["seq"] = second << 16 | mask
        return self.send(SERVER_PORT, SWITCH, record.tobytes())

    def close(self, round_: int, port: int = SERVER_PORT, epoch: int = EPOCH) -> list[Out]:
        """Say that a round is committed, by an UPDATE without cells."""
        batch, lengths = self.codec.encode_updates(
            np.zeros(1, np.int64),
            np.zeros((1, self.artifact.layout.lanes), np.bool_),
            np.zeros((1, self.artifact.layout.lanes), np.float32),
        )
        tag = make_tag(epoch, round_)
        fill_header(batch["header"], Op.UPDATE, job=JOB, worker=SERVER_RANK, tag=tag)
        return self.send(port, GROUP, batch.tobytes()[: int(lengths[0])], ttl=8)

    def probe(self, port: int, worker: int, destination: str = SWITCH) -> list[Out]:
        """Send a PROBE."""
        record = np.zeros(1, PROBE)
        fill_header(record["header"], Op.PROBE, job=JOB, worker=worker, tag=make_tag(EPOCH, 0))
        return self.send(port, destination, record.tobytes())

    def drained(self, out: Out) -> Records:
        """The DRAINED record in a datagram, padded to its longest form."""
        data = np.zeros(self.codec.drained.itemsize, np.uint8)
        data[: len(out.payload)] = np.frombuffer(out.payload, np.uint8)
        record = data.view(self.codec.drained)
        assert self.codec.drained_lengths(record)[0] == len(out.payload)
        return record


@contextmanager
def embedded(
    artifact: Artifact, fraction_bits: int = 40, workers: int = 4
) -> Iterator[SwitchUnderTest]:
    """An embedded switch in memory, provisioned over P4Runtime.

    The program is compiled beforehand, for a client does not wait as long as a slow machine needs.
    """
    DataPlane.load(artifact.device_config).close()
    with P4RuntimeServer("127.0.0.1:0") as server:
        switch = SwitchUnderTest(
            _InMemory(server), artifact, server.address, "soft", fraction_bits, workers
        )
        asyncio.run(switch.provision())
        yield switch


class _InMemory:
    """The ports of whatever data plane a server runs at the moment."""

    def __init__(self, server: P4RuntimeServer) -> None:
        self._server = server

    def dataplane(self) -> DataPlane:
        """The one that runs."""
        dataplane = self._server.dataplane
        assert dataplane is not None
        return dataplane

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Run a packet to its end."""
        return self.dataplane().inject(port, packet)
