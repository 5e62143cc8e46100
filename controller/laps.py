"""Pipes of a Tofino: where the rows of a job are read, and where its rounds are closed.

State is per pipe. A DRAIN visits every pipe that has workers of the job, by the tables `laps` and
`pipes` of libra_tna.p4; the server's UPDATEs reach those pipes by the job's group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import finsy as fy

from controller.tables import Entity, Membership
from controller.targets.ports import Chip, chip_with, pipe_of

DRAIN_GROUPS = 0x7000
"""A job's DRAINs are copied by the multicast group of this number and the job's slot.

It is above the numbers of jobs' groups, and below 0x8000, where the P4Runtime server of bf_switchd
has the groups of its clone sessions.
"""

COPY = 1
"""The replication id that tells the egress that a DRAIN is a copy; the original has 0."""


def chip_of(p4info: fy.P4Schema) -> Chip | None:
    """The chip of a program that reads rows on laps and copies DRAINs by a group, else None."""
    if any(table.name == "LibraIngress.laps" for table in p4info.tables):
        return chip_with(p4info.arch)
    return None


def update_ports(chip: Chip, server: int, workers: Iterable[int]) -> set[int]:
    """Recirculation ports of pipes that have workers, but not the server, at these device ports.

    A copy of each UPDATE goes there: it closes the round in that pipe, and is dropped.
    """
    pipes = {pipe_of(port) for port in workers} - {pipe_of(server)}
    return {chip.recirculation_port(pipe) for pipe in pipes}


@dataclass(frozen=True)
class Laps:
    """The laps of a job's DRAINs, through the pipes that have its workers."""

    chip: Chip
    membership: Membership

    def entries(self) -> Iterator[Entity]:
        """The group that copies, the entry that uses it, and the way from pipe to pipe."""
        job = self.membership
        group = DRAIN_GROUPS + job.slot
        pipes = sorted({pipe_of(worker.port) for worker in job.workers})
        first, *_ = ports = [self.chip.recirculation_port(pipe) for pipe in pipes]
        yield fy.P4MulticastGroupEntry(group, replicas=[(first, COPY)])
        yield fy.P4TableEntry(
            "LibraIngress.laps",
            match=fy.Match(**{"md.job_slot": job.slot}),
            action=fy.Action("LibraIngress.lap_at", port=first, group=group),
        )
        for port, following in pairwise(ports):
            yield fy.P4TableEntry(
                "LibraIngress.pipes",
                match=fy.Match(**{"md.job_slot": job.slot, "standard_metadata.ingress_port": port}),
                action=fy.Action("LibraIngress.read_in", port=following),
            )
