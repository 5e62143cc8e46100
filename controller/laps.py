"""Where a Tofino reads the rows of a job: the entries of the table `laps` of libra_tna.p4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import finsy as fy

from controller.tables import Entity, Membership
from controller.targets.ports import pipe_of, recirculation_port

DRAIN_GROUPS = 0xF000
"""A job's DRAINs are copied by the multicast group of this number and the job's slot."""

COPY = 1
"""The replication id that tells the egress that a DRAIN is a copy; the original has 0."""


@dataclass(frozen=True)
class Laps:
    """The laps of a job's DRAINs, through the pipe that has its workers."""

    membership: Membership

    @staticmethod
    def has_program(p4info: fy.P4Schema) -> bool:
        """Whether a program reads rows on laps, and copies DRAINs by a group."""
        return any(table.name == "LibraIngress.laps" for table in p4info.tables)

    def entries(self) -> Iterator[Entity]:
        """The group that copies, then the table entry that uses it."""
        job = self.membership
        group = DRAIN_GROUPS + job.slot
        port = recirculation_port(pipe_of(job.workers[0].port))
        yield fy.P4MulticastGroupEntry(group, replicas=[(port, COPY)])
        yield fy.P4TableEntry(
            "LibraIngress.laps",
            match=fy.Match(**{"md.job_slot": job.slot}),
            action=fy.Action("LibraIngress.lap_at", port=port, group=group),
        )
