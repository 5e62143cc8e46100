"""What each switch is to hold, from the inventory and the jobs."""

from __future__ import annotations

from dataclasses import replace

from controller.daemon.job_keeper import JobKeeper
from controller.daemon.job_record import JobRecord, Taken
from controller.daemon.mirror import Mirror, Part
from controller.inventory import Inventory
from controller.provision import group_entities, job_entities, network_entities
from controller.tables import Attachment, Forward, Group, Local, Membership
from controller.targets import Program, find_target
from host_stack.errors import BadInput


class SwitchWanted:
    """`controller.daemon.switch_keeper.Wanted` of one switch."""

    def __init__(self, inventory: Inventory, switch: str, program: Program) -> None:
        self._inventory = inventory
        self._spec = inventory.switch(switch)
        self._program = program
        self._hosts = inventory.attachments(switch)
        self._at = {host.address: host for host in self._hosts}
        self._network: Part | None = None
        self._tables: dict[int, tuple[Membership, Part]] = {}

    def network(self, mirror: Mirror) -> Part:
        """What all jobs share."""
        if self._network is None:
            forward, local = Forward(self._spec.mac, self._hosts), Local(self._spec.ip)
            others = self._inventory.other_switches(self._spec.name)
            self._network = mirror.part(network_entities(mirror.p4info, forward, local, others))
        return self._network

    def ports(self) -> set[int]:
        """Those from which packets may come."""
        others = self._inventory.other_switches(self._spec.name)
        return {each.port for each in (*self._hosts, *others)}

    def group(self, job: JobKeeper, mirror: Mirror) -> Part:
        """The multicast group of a job: a tree from the server's switch, cut to this switch."""
        record = job.record
        ports = self.group_ports(record)
        if not ports:
            return Part({})
        server = self._at[record.server]
        group = Group(record.group, record.group_id, server, ports)
        return mirror.part(group_entities(mirror.p4info, group))

    def group_ports(self, record: JobRecord) -> set[int]:
        """Where UPDATEs of a job leave this switch; none if they do not pass it."""
        first = self._inventory.host_at(record.server).switch
        return {
            self._at[worker].port
            for worker in record.workers
            if self._spec.name
            in self._inventory.path(first, self._inventory.host_at(worker).switch)
        }

    def job(self, job: JobKeeper, taken: Taken, mirror: Mirror) -> Part:
        """All of a job that is on this switch; its entry is the gate."""
        membership = self.membership(job.record, taken.epoch, taken.fraction_bits)
        timeless = replace(membership, epoch=1)
        known = self._tables.get(job.record.job)
        if known is None or known[0] != timeless:
            lanes = self._program.layout.lanes
            known = (timeless, mirror.part(job_entities(mirror.p4info, membership, lanes)))
            self._tables[job.record.job] = known
        gate = mirror.part((), membership.job_entry()).gate
        return Part({**known[1].entities, **self.group(job, mirror).entities}, gate)

    def membership(self, record: JobRecord, epoch: int, fraction_bits: int) -> Membership:
        """A job as this switch has it; `BadInput` if it cannot hold it."""
        own = self._spec.name
        seat = record.seat_on(own)
        membership = Membership(
            job=record.job,
            epoch=epoch,
            fraction_bits=fraction_bits,
            slot=seat.slot,
            row_base=seat.block.row_base,
            rows=seat.block.rows,
            workers=[self._at[worker] for worker in record.workers],
            server=self._at[record.server],
            group=record.group,
            group_id=record.group_id,
            elsewhere=tuple(
                rank
                for rank, worker in enumerate(record.workers)
                if self._summing(record, worker) != own
            ),
            before=self._before(record),
        )
        membership.check(self._program.layout)
        target = find_target(self._spec.target)
        target.check_job(seat.slot, len(record.workers))
        if not target.capabilities.chains and (membership.elsewhere or membership.before):
            raise BadInput(
                f"job {record.job} is summed on {', '.join(each.switch for each in record.seats)}: "
                f"{target.name} at {own} cannot add up with other switches; delete the job, by the "
                "inventory that it was made with, and create it again: it is then summed at the "
                "switch of its server"
            )
        return membership

    def _summing(self, record: JobRecord, worker: str) -> str:
        """The switch that sums for a worker: its own, or else the one that a drain ends at."""
        own = self._inventory.host_at(worker).switch
        return own if any(seat.switch == own for seat in record.chain) else record.switch

    def _before(self, record: JobRecord) -> Attachment | None:
        """The switch from which a drain of a job comes here; None if it begins here."""
        names = [seat.switch for seat in record.seats]
        at = names.index(self._spec.name)
        if at == 0:
            return None
        before = self._inventory.switch(names[at - 1])
        others = self._inventory.other_switches(self._spec.name)
        return next(other for other in others if other.address == before.ip)
