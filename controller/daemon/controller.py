"""The controller: the jobs and switches of an inventory, and what may be done with them.

All methods run in one event loop. What changes something is written to the store first, in one
transaction, and reaches the switches afterwards.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from controller.daemon.job_keeper import JobKeeper, check_fits
from controller.daemon.job_record import JobRecord, Placed, Placing, Seat, Taken
from controller.daemon.row_reads import RowReads
from controller.daemon.rows import RowAllocator
from controller.daemon.store import Store, StoredEvent
from controller.daemon.switch_keeper import SwitchKeeper, Turn
from controller.daemon.wanted import SwitchWanted
from controller.errors import AlreadyThere, NoRoom, NotKnown
from controller.inventory import Inventory
from controller.placing.blocks import Block, block_rows
from controller.targets import find_target
from controller.targets.rack import check_racks
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.layout import Layout
from host_stack.placement import Placement
from host_stack.wire import MAX_HOPS, DrainFormat

MAX_JOBS = 1000

Report = Callable[..., None]
"""Is told of every event: kind, and fields."""


@dataclass(frozen=True)
class Ask:
    """A job that is asked for: a record without what the controller gives.

    Attributes:
        record: slot, block and group_id count for nothing; `switch` may be empty.
        rows: to keep; 0 for as many as the placement needs.
        placement: the hot keys; None for none.
    """

    record: JobRecord
    rows: int
    placement: Placement | None


class Controller:
    """Owns what an inventory names.

    Attributes:
        inventory, store: as given.
        jobs: by number.
        switches: by name.
        reads: what the servers of jobs are asked to read.
    """

    def __init__(
        self,
        inventory: Inventory,
        store: Store,
        report: Report = lambda event, **fields: None,
        *,
        attempts: int = 0,
        turn: Turn | None = None,
    ) -> None:
        """Take up the jobs of a store; `attempts` and `turn` as `SwitchKeeper` has them.

        Raises `BadInput` if the inventory lacks what a job of the store needs, `LayoutMismatch` if
        switches of one rack run programs that differ in their layout, or if one has other lanes or
        rows than those that a job was placed on.
        """
        self.inventory = inventory
        self.store = store
        self.jobs: dict[int, JobKeeper] = {}
        self.reads = RowReads()
        self._programs = {
            switch.name: find_target(switch.target).load(switch.program)
            for switch in inventory.switches
        }
        check_racks({switch.name: switch.rack for switch in inventory.switches}, self._programs)
        self._report = report
        self._news = asyncio.Event()
        self._wanted = {
            switch.name: SwitchWanted(inventory, switch.name, self._programs[switch.name])
            for switch in inventory.switches
        }
        self.switches = {
            switch.name: SwitchKeeper(
                switch,
                self._programs[switch.name],
                self._wanted[switch.name],
                self._teller(switch=switch.name),
                lambda name=switch.name: store.forget_spent(name),  # type: ignore[misc]
                attempts=attempts,
                turn=turn,
            )
            for switch in inventory.switches
        }
        for record, taken in store.jobs():
            self._check_members(record)
            placement = self._add(record, taken).placement
            # Another version of the program has the same cells, if it has as many.
            layout = replace(self.layout_of(record.switch), program=placement.layout.program)
            check_fits(placement, record, layout)

    def layout_of(self, switch: str) -> Layout:
        """Of the program that a switch runs."""
        return self._programs[switch].layout

    async def keep(self) -> None:
        """Keep all switches as they should be; returns never. Raises what one of them raises."""
        async with asyncio.TaskGroup() as tasks:
            for switch in self.switches.values():
                tasks.create_task(switch.keep())

    # -- jobs -------------------------------------------------------------------------------

    def job(self, number: int) -> JobKeeper:
        """The keeper of a job; `NotKnown` lists those that there are."""
        if (found := self.jobs.get(number)) is not None:
            return found
        known = ", ".join(map(str, sorted(self.jobs))) or "none"
        raise NotKnown(f"job {number} is not known here; known are {known}")

    def create(self, ask: Ask) -> JobKeeper:
        """Give a job rows, a slot and a group, and have it installed.

        Raises:
            BadInput: something of it is outside of what is allowed.
            AlreadyThere: its number or its group is taken.
            NoRoom: there is no slot or no block of rows for it.
        """
        record = ask.record
        if record.job in self.jobs:
            raise AlreadyThere(f"job {record.job} exists; delete it first or take another number")
        for other in self.jobs.values():
            if other.record.group == record.group:
                raise AlreadyThere(f"group {record.group} is that of job {other.record.job}")
        if len(self.jobs) >= MAX_JOBS:
            raise NoRoom(f"there are {MAX_JOBS} jobs, which is the most; delete one")
        record = self._placed(ask)
        placement = ask.placement or Placement.empty(self.layout_of(record.switch))
        self._check_members(record)
        self._description(record)
        check_fits(placement, record, self.layout_of(record.switch))
        with self.store.change():
            self.store.save_job(record)
            placing = Placing(1, record.fraction_bits, placement)
            self.store.save_placement(record.job, placing)
        job = self._add(record, None)
        self._tell(
            "job-created", f"rows {record.block.row_base}…+{record.block.rows}", job=record.job
        )
        return job

    def declare(self, number: int, workers: tuple[str, ...]) -> JobKeeper:
        """Give a job its workers, or others."""
        job = self.job(number)
        if not workers:
            raise BadInput("no workers: at least one is needed")
        record = self._chained(job.record.with_workers(workers))
        self._check_members(record)
        self._description(record)
        self._leave_switches(job)
        job.declare(record)
        self._enter_switches(job)
        return job

    def delete(self, number: int) -> None:
        """Take a job off its switch and forget it."""
        job = self.job(number)
        del self.jobs[number]
        self._leave_switches(job)
        job.delete()
        self._tell("job-deleted", "its rows are free", job=number)

    def describe_for_hosts(self, job: JobKeeper) -> Job:
        """The `Job` that workers and server of a job have to know."""
        epoch = 1 if job.current is None else job.current.epoch
        bits = job.record.fraction_bits if job.current is None else job.current.fraction_bits
        return self._description(job.record).at(epoch, bits)

    def rows_of(self, switch: str) -> RowAllocator:
        """The rows of a switch."""
        taken = [job.record.seat_on(switch).block for job in self._placed_on(switch)]
        return RowAllocator(self.layout_of(switch).rows, taken)

    # -- events -----------------------------------------------------------------------------

    async def events(self, after: int, *, stop_at_end: bool) -> AsyncIterator[StoredEvent]:
        """Those with numbers above `after`, and each further one."""
        while True:
            news = self._news
            found = self.store.events(after)
            for event in found:
                yield event
                after = event.number
            if not found:
                if stop_at_end:
                    return
                await news.wait()

    def _tell(self, kind: str, text: str, job: int = 0, switch: str = "", **fields: Any) -> None:
        self.store.add_event(kind, job, switch, text)
        if (keeper := self.jobs.get(job)) is not None:
            fields |= keeper.where
        self._report(kind, job=job, switch=switch, text=text, **fields)
        self._news.set()
        self._news = asyncio.Event()

    def _teller(self, job: int = 0, switch: str = "") -> Callable[..., None]:
        def tell(kind: str, text: str, **fields: Any) -> None:
            self._tell(kind, text, job, switch, **fields)

        return tell

    # -- where a job goes ---------------------------------------------------------------------

    def _placed(self, ask: Ask) -> JobRecord:
        """The record of a new job, with a switch, a slot, rows and a group."""
        record = ask.record
        switch = record.switch or self.inventory.host_at(record.server).switch
        self.inventory.switch(switch)
        needed = max(1, 0 if ask.placement is None else ask.placement.used_rows)
        if ask.rows and ask.rows < needed:
            raise BadInput(f"{ask.rows} rows: the placement needs {needed}")
        if record.placed is Placed.JOB:
            block = self.rows_of(switch).find(ask.rows or needed)
            slot = self._free_slot(switch)
        else:
            block, slot = Block(0, block_rows(needed)), 0
        groups = {job.record.group_id for job in self.jobs.values()}
        group_id = next(number for number in range(1, MAX_JOBS + 2) if number not in groups)
        return self._chained(
            replace(record, switch=switch, slot=slot, block=block, group_id=group_id)
        )

    def _chained(self, record: JobRecord) -> JobRecord:
        """A job with seats on the switches of its other racks, as far as these can sum for it.

        Gradients of other workers are summed where they all pass: at the server's own switch.
        Raises `NoRoom` if one of these switches has none.
        """
        if record.placed is not Placed.JOB:
            return record
        racks = Counter(self.inventory.host_at(worker).switch for worker in record.workers)
        names = [name for name, _ in racks.most_common() if self._may_precede(name, record)]
        kept = {seat.switch: seat for seat in record.chain}
        chain = (kept.get(name) or self._seat(name, record) for name in names[:MAX_HOPS])
        return replace(record, chain=tuple(sorted(chain, key=lambda seat: seat.switch)))

    def _may_precede(self, switch: str, record: JobRecord) -> bool:
        """Whether a drain of a job can come from one switch to the last one."""
        ends = (switch, record.switch)
        return (
            switch != record.switch
            and record.switch == self.inventory.host_at(record.server).switch
            and self.layout_of(switch) == self.layout_of(record.switch)
            and all(find_target(self.inventory.switch(e).target).capabilities.chains for e in ends)
        )

    def _seat(self, switch: str, record: JobRecord) -> Seat:
        try:
            block = self.rows_of(switch).find(record.block.rows)
        except NoRoom as error:
            raise NoRoom(f"{switch}: {error}") from error
        return Seat(switch, self._free_slot(switch), block)

    def _free_slot(self, switch: str) -> int:
        taken = {job.record.seat_on(switch).slot for job in self._placed_on(switch)}
        slots = find_target(self.inventory.switch(switch).target).capabilities.slots
        for slot in range(1, slots):
            if slot not in taken:
                return slot
        raise NoRoom(f"{switch} has {slots - 1} jobs, which is the most; delete one")

    def _placed_on(self, switch: str) -> Iterator[JobKeeper]:
        for job in self.jobs.values():
            if job.record.placed is Placed.JOB and switch in job.needed:
                yield job

    def _check_members(self, record: JobRecord) -> None:
        """Raise `BadInput` unless the inventory has all hosts of a job, and its switches room."""
        for seat in record.seats:
            self.inventory.switch(seat.switch)
        for address in (*record.workers, record.server):
            self.inventory.host_at(address)
        if record.placed is Placed.JOB and record.workers:
            for seat in record.seats:
                self._wanted[seat.switch].membership(record, 1, record.fraction_bits)

    def _description(self, record: JobRecord) -> Job:
        switch = self.inventory.switch(record.switch)
        job = record.description(self.layout_of(switch.name), switch.ip)
        formats = find_target(switch.target).capabilities.formats
        return replace(job, drain_digits=DrainFormat.FLOAT32 not in formats)

    # -- keepers ------------------------------------------------------------------------------

    def _add(self, record: JobRecord, taken: Taken | None) -> JobKeeper:
        def wake() -> None:
            if (found := self.jobs.get(record.job)) is not None:
                self._wake(found)

        job = JobKeeper(
            record,
            taken,
            self.store,
            self.layout_of(record.switch),
            self._teller(job=record.job, switch=record.switch),
            wake,
            lambda name: self.inventory.switch(name).ip,
        )
        self.jobs[record.job] = job
        self._enter_switches(job)
        return job

    def _enter_switches(self, job: JobKeeper) -> None:
        for name, switch in self.switches.items():
            if name in job.needed:
                switch.jobs.append(job)
                if not switch.is_ready:
                    job.down.add(name)
            elif self._wanted[name].group_ports(job.record):
                switch.passing.append(job)
        self._wake(job)

    def _leave_switches(self, job: JobKeeper) -> None:
        self._wake(job)
        job.down.clear()
        for switch in self.switches.values():
            switch.jobs = [each for each in switch.jobs if each is not job]
            switch.passing = [each for each in switch.passing if each is not job]

    def _wake(self, job: JobKeeper) -> None:
        for switch in self.switches.values():
            if job in switch.jobs or job in switch.passing:
                switch.wake()
