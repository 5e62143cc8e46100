"""The control API: what operators ask a controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any, TypeVar

import finsy as fy

from controller.counters import read_all_reasons, read_foreign, read_members
from controller.daemon.codes import MAX_CALL_S, Context, answered, once
from controller.daemon.controller import Controller
from controller.daemon.dump import RegisterDump, dump_drained, rows_asked, way_of
from controller.daemon.messages import (
    event_message,
    job_message,
    read_ask,
    read_placement,
    switch_message,
)
from controller.errors import NotNow
from controller.jobapi import control_pb2, control_pb2_grpc
from controller.provision import ProvisionFailed
from controller.targets import find_target
from host_stack.errors import BadInput

MAX_PAGE = 1000
DEFAULT_PAGE = 100

_T = TypeVar("_T")


class ControlService(control_pb2_grpc.ControlServiceServicer):  # type: ignore[misc]
    """Answers for one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def CreateJob(
        self, request: control_pb2.CreateJobRequest, context: Context
    ) -> control_pb2.JobInfo:
        """Give a job rows, a slot and a group."""
        own = self._controller

        def create() -> control_pb2.JobInfo:
            return job_message(own, own.create(read_ask(request)))

        return await self._once(context, request, create, control_pb2.JobInfo)

    async def DescribeJob(
        self, request: control_pb2.DescribeJobRequest, context: Context
    ) -> control_pb2.JobInfo:
        """How a job stands."""
        own = self._controller
        return await answered(context, lambda: job_message(own, own.job(request.job)))

    async def ListJobs(
        self, request: control_pb2.ListJobsRequest, context: Context
    ) -> control_pb2.ListJobsReply:
        """Jobs by number, a page of them."""

        def page() -> control_pb2.ListJobsReply:
            size = request.page_size or DEFAULT_PAGE
            if size > MAX_PAGE:
                raise BadInput(f"page_size {size}: allowed are 1 to {MAX_PAGE}")
            numbers = sorted(job for job in self._controller.jobs if job > request.after_job)
            jobs = [self._controller.jobs[number] for number in numbers[:size]]
            return control_pb2.ListJobsReply(
                jobs=[job_message(self._controller, job) for job in jobs],
                more=len(numbers) > size,
            )

        return await answered(context, page)

    async def DeleteJob(
        self, request: control_pb2.DeleteJobRequest, context: Context
    ) -> control_pb2.DeleteJobReply:
        """Take a job off its switch."""

        def delete() -> control_pb2.DeleteJobReply:
            self._controller.delete(request.job)
            return control_pb2.DeleteJobReply()

        return await self._once(context, request, delete, control_pb2.DeleteJobReply)

    async def ChangeJob(
        self, request: control_pb2.ChangeJobRequest, context: Context
    ) -> control_pb2.JobInfo:
        """Another placement, another F, or both."""
        own = self._controller

        def change() -> control_pb2.JobInfo:
            job = own.job(request.job)
            bits = request.fraction_bits if request.HasField("fraction_bits") else None
            placement = read_placement(request.placement)
            if bits is None and placement is None:
                raise BadInput("nothing to change: give a placement, F, or both")
            job.change(placement, bits)
            return job_message(own, job)

        return await self._once(context, request, change, control_pb2.JobInfo)

    async def DeclareWorkers(
        self, request: control_pb2.DeclareWorkersRequest, context: Context
    ) -> control_pb2.JobInfo:
        """The workers of a job."""
        own = self._controller

        def declare() -> control_pb2.JobInfo:
            return job_message(own, own.declare(request.job, tuple(request.workers)))

        return await self._once(context, request, declare, control_pb2.JobInfo)

    async def ListSwitches(
        self, request: control_pb2.ListSwitchesRequest, context: Context
    ) -> control_pb2.ListSwitchesReply:
        """How the switches stand, and what room they have."""
        del request, context
        own = self._controller
        return control_pb2.ListSwitchesReply(
            switches=[switch_message(own, switch) for switch in own.switches.values()]
        )

    async def ReadStats(
        self, request: control_pb2.ReadStatsRequest, context: Context
    ) -> control_pb2.ReadStatsReply:
        """Packets by reason."""
        return await answered(context, lambda: self._stats(request))

    async def Dump(
        self, request: control_pb2.DumpRequest, context: Context
    ) -> control_pb2.DumpReply:
        """Cells, windows and the open round of a job."""
        return await answered(context, lambda: self._dump(request))

    async def WatchEvents(
        self, request: control_pb2.WatchEventsRequest, context: Context
    ) -> AsyncIterator[control_pb2.Event]:
        """Events that are kept, and each further one."""
        del context
        events = self._controller.events(request.after, stop_at_end=request.stop_at_end)
        async for event in events:
            if request.job in {0, event.job}:
                yield event_message(event)

    async def _dump(self, request: control_pb2.DumpRequest) -> control_pb2.DumpReply:
        own, job = self._controller, self._controller.job(request.job)
        name = request.switch or job.record.switch
        if name not in job.needed:
            raise BadInput(f"{name}: job {request.job} is on {', '.join(sorted(job.needed))}")
        switch = own.switches[name]
        through = way_of(request, find_target(switch.spec.target).capabilities.reads_registers)
        if not job.is_on_switch or job.current is None or switch.connection is None:
            raise NotNow(f"job {request.job} is not on {switch.spec.name} now: {switch.reason}")
        seat = job.record.seat_on(name)
        rows = rows_asked(request, seat.block)
        if through == control_pb2.THROUGH_DRAINS:
            return await dump_drained(own.reads, request.job, job.current, rows)
        ranks = range(len(job.record.workers))
        layout = own.layout_of(switch.spec.name)
        now = job.current
        dump = RegisterDump(switch.connection, layout, seat, ranks, now.epoch, now.round)
        try:
            return await dump.read(rows, windows=request.windows)
        except fy.P4ClientError as error:
            raise ProvisionFailed(f"{switch.spec.name} cannot be read: {error}") from error

    async def _stats(self, request: control_pb2.ReadStatsRequest) -> control_pb2.ReadStatsReply:
        own = self._controller
        if request.job:
            own.job(request.job)
        if request.switch:
            own.inventory.switch(request.switch)
        reply = control_pb2.ReadStatsReply()
        for name, switch in own.switches.items():
            if request.switch not in {"", name}:
                continue
            try:
                if switch.connection is None:
                    raise TimeoutError
                async with asyncio.timeout(MAX_CALL_S / 3):
                    counts = await read_all_reasons(switch.connection)
                    members = await read_members(switch.connection)
                    foreign = await read_foreign(switch.connection)
            except (TimeoutError, fy.P4ClientError):
                reply.missing.append(name)
                continue
            owners = switch.owners()
            for (slot, reason), packets in counts.items():
                job = owners.get(slot, 0)
                if packets and (slot == 0 or job) and request.job in {0, job}:
                    reply.counts.add(switch=name, job=job, reason=reason, packets=packets)
            for each in members:
                if request.job in {0, each.job}:
                    reply.members.add(switch=name, **asdict(each))
            for port, packets in foreign.items():
                reply.foreign.add(switch=name, port=port, packets=packets)
        return reply

    async def _once(
        self, context: Context, request: Any, work: Callable[[], _T], reply: type[_T]
    ) -> _T:
        store = self._controller.store
        return await answered(context, lambda: once(store, request, work, reply))
