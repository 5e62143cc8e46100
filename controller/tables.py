"""The entries of the switch program's tables; each class fills the P4 control of its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import finsy as fy

from host_stack.errors import BadInput
from host_stack.fixedpoint import Alignment, alignment, check_fraction_bits
from host_stack.layout import MAX_WORKERS, SERVER_RANK, Layout

DRAIN_SESSION = 1
"""Clone session that copies a DRAIN (p4src/include/types.p4)."""

JOB_SLOTS = 16
"""Slots of jobs; slot 0 stands for packets of no known job."""

Entity: TypeAlias = fy.P4TableEntry | fy.P4MulticastGroupEntry | fy.P4CloneSessionEntry


@dataclass(frozen=True)
class Attachment:
    """A host behind a port of the switch."""

    address: str
    mac: str
    port: int


NO_PORT = 511
"""No packet comes from this port: it stands for the switch itself."""


@dataclass(frozen=True)
class Sources:
    """Which port the address of a host, or of the switch, may come from."""

    own_address: str
    hosts: Sequence[Attachment]

    def entries(self) -> Iterator[Entity]:
        """One entry per address."""
        for host in self.hosts:
            yield self._entry(host.address, host.port)
        yield self._entry(self.own_address, NO_PORT)

    def _entry(self, address: str, port: int) -> Entity:
        return fy.P4TableEntry(
            "LibraIngress.sources.sources",
            match=fy.Match(**{"hdr.ipv4.src": address}),
            action=fy.Action("LibraIngress.sources.attached", port=port),
        )


@dataclass(frozen=True)
class Forward:
    """Routes of the switch and who may send to which multicast group."""

    own_mac: str
    hosts: Sequence[Attachment]

    def entries(self) -> Iterator[Entity]:
        """One host route per attached host."""
        for host in self.hosts:
            yield fy.P4TableEntry(
                "LibraIngress.forward.routes",
                match=fy.Match(**{"hdr.ipv4.dst": f"{host.address}/32"}),
                action=fy.Action(
                    "LibraIngress.forward.forward",
                    port=host.port,
                    next_hop=host.mac,
                    own=self.own_mac,
                ),
            )


@dataclass(frozen=True)
class Local:
    """The addresses of the switch itself, and the session that copies DRAINs."""

    address: str

    def entries(self) -> Iterator[Entity]:
        """The switch's own address."""
        yield fy.P4TableEntry(
            "LibraIngress.locals",
            match=fy.Match(**{"hdr.ipv4.dst": self.address}),
            action=fy.Action("LibraIngress.local"),
        )

    @staticmethod
    def session() -> Entity:
        """The clone session that copies DRAINs."""
        return fy.P4CloneSessionEntry(DRAIN_SESSION, replicas=[1])


@dataclass(frozen=True)
class Group:
    """The multicast group of a job on one switch; the job's server alone may send to it.

    Attributes:
        address: of the group. group_id: its number in the replication engine.
        server: as this switch sees it.
        ports: where copies leave; workers behind one link share one.
    """

    address: str
    group_id: int
    server: Attachment
    ports: Collection[int]

    def entries(self) -> Iterator[Entity]:
        """The group and who may send to it."""
        yield fy.P4MulticastGroupEntry(self.group_id, replicas=sorted(set(self.ports)))
        yield fy.P4TableEntry(
            "LibraIngress.forward.groups",
            match=fy.Match(
                **{
                    "hdr.ipv4.dst": self.address,
                    "hdr.ipv4.src": self.server.address,
                    "standard_metadata.ingress_port": self.server.port,
                }
            ),
            action=fy.Action("LibraIngress.forward.replicate", group=self.group_id),
        )


@dataclass(frozen=True)
class Membership:
    """A job on one switch: its slot and rows, its workers by rank and its server.

    Attributes:
        job, epoch, fraction_bits: as in the job description.
        slot: 1…15.
        row_base, rows: a power-of-two block of rows, aligned to its size.
        workers: by rank. server: the parameter server.
        elsewhere: the ranks that another switch sums: their packets pass here.
        before: the switch that a drain comes from, None if it begins here.
        group: multicast address of UPDATEs; group_id: its number in the replication engine.
    """

    job: int
    epoch: int
    fraction_bits: int
    slot: int
    row_base: int
    rows: int
    workers: Sequence[Attachment]
    server: Attachment
    group: str
    group_id: int
    elsewhere: Collection[int] = ()
    before: Attachment | None = None

    def check(self, layout: Layout) -> None:
        """Raise `BadInput`, with what is allowed, for a job that this layout cannot hold."""
        check_fraction_bits(self.fraction_bits)
        if not 0 < self.slot < JOB_SLOTS:
            raise BadInput(f"job slot {self.slot}: allowed are 1 to {JOB_SLOTS - 1}")
        if not 0 < len(self.workers) <= MAX_WORKERS:
            raise BadInput(f"{len(self.workers)} workers: allowed are 1 to {MAX_WORKERS}")
        if self.rows <= 0 or self.rows & (self.rows - 1) or self.row_base % self.rows:
            raise BadInput(
                f"rows {self.row_base}…+{self.rows}: a job has an aligned power-of-two block"
            )
        if not 0 <= self.row_base <= layout.rows - self.rows:
            raise BadInput(
                f"rows {self.row_base} to {self.row_base + self.rows - 1}: the switch has "
                f"{layout.rows}"
            )

    def job_entry(self) -> fy.P4TableEntry:
        """The job: what of it holds for an epoch."""
        return fy.P4TableEntry(
            "LibraIngress.membership.jobs",
            match=fy.Match(**{"hdr.libra.job": self.job}),
            action=fy.Action(
                "LibraIngress.membership.job",
                slot=self.slot,
                epoch=self.epoch,
                row_base=self.row_base,
                row_mask=self.rows - 1,
                float_bias=(127 - self.fraction_bits) & 0xFF,
                server=self.server.address,
            ),
        )

    def member_entries(self) -> Iterator[Entity]:
        """Who takes part."""
        for rank, worker in enumerate(self.workers):
            action = fy.Action("LibraIngress.membership.worker", rank=rank)
            if rank in self.elsewhere:
                action = fy.Action("LibraIngress.membership.elsewhere")
            yield self._member(rank, worker, action)
        yield self._member(SERVER_RANK, self.server, fy.Action("LibraIngress.membership.server"))
        if self.before is not None:
            relay = fy.Action("LibraIngress.membership.relay")
            yield self._member(SERVER_RANK, self.before, relay)

    def multicast(self) -> Group:
        """Of a switch at which all workers hang, or through which all are reached."""
        ports = [worker.port for worker in self.workers]
        return Group(self.group, self.group_id, self.server, ports)

    def _member(self, rank: int, host: Attachment, action: fy.P4TableAction) -> Entity:
        return fy.P4TableEntry(
            "LibraIngress.membership.members",
            match=fy.Match(
                **{
                    "hdr.libra.job": self.job,
                    "hdr.libra.worker": rank,
                    "standard_metadata.ingress_port": host.port,
                    "hdr.ipv4.src": host.address,
                }
            ),
            action=action,
        )


@dataclass(frozen=True)
class LaneAlign:
    """The exponent look-up tables of every lane, for one job (section 3 of the design)."""

    slot: int
    fraction_bits: int
    lanes: int

    def entries(self) -> Iterator[Entity]:
        """One for each exponent that does not escape: to escape is the tables' default."""
        actions = [(exponent, *alignment(exponent, self.fraction_bits)) for exponent in range(256)]
        for lane in range(self.lanes):
            prefix = f"LibraIngress.align{lane}."
            for exponent, kind, shift in actions:
                if kind is not Alignment.ESCAPE:
                    yield fy.P4TableEntry(
                        prefix + "exponents",
                        match=fy.Match(job_slot=self.slot, exponent=exponent),
                        action=_align_action(prefix, kind, shift),
                    )


def _align_action(prefix: str, kind: Alignment, shift: int) -> fy.P4TableAction:
    if kind is Alignment.ZERO:
        return fy.Action(prefix + "zero")
    return fy.Action(prefix + kind.value, shift=shift)
