"""The job API: what the server of a job is told, and asks; and how the job stands."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import finsy as fy

from controller.counters import read_reasons
from controller.daemon.codes import Context, answered, refuse
from controller.daemon.controller import Controller
from controller.daemon.job_keeper import JobKeeper, Request
from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.standing import from_message, to_message
from host_stack.errors import BadInput, LibraError
from host_stack.incarnation import Incarnation
from host_stack.layout import MAX_EPOCH, MAX_ROUND

MAX_REASON = 300
"""Characters of a reason that are kept."""

COUNTERS_S = 3.0
"""How long a switch may take to say its counters."""


class JobService(job_pb2_grpc.JobServiceServicer):  # type: ignore[misc]
    """Answers for all jobs of one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def Watch(
        self, request: job_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[job_pb2.Incarnation]:
        """Send the incarnation that holds, and each further one."""
        incarnation = None
        try:
            with self._controller.job(request.job).followed() as keeper:
                while True:
                    incarnation = await keeper.after(incarnation)
                    yield _message(request.job, incarnation)
        except LibraError as error:
            await refuse(context, error)

    async def Renew(self, request: job_pb2.RenewRequest, context: Context) -> job_pb2.RenewReply:
        """Make another incarnation."""
        await answered(context, lambda: self._job(request).renew(_read(request)))
        return job_pb2.RenewReply()

    async def Suspect(
        self, request: job_pb2.SuspectRequest, context: Context
    ) -> job_pb2.SuspectReply:
        """Look at the switch."""
        await answered(context, lambda: self._job(request).suspect(_read(request)))
        return job_pb2.SuspectReply()

    async def Report(self, request: job_pb2.ReportRequest, context: Context) -> job_pb2.ReportReply:
        """Remember how the job stands."""
        await answered(context, lambda: self._job(request).report(from_message(request.standing)))
        return job_pb2.ReportReply()

    async def Status(self, request: job_pb2.StatusRequest, context: Context) -> job_pb2.StatusReply:
        """How things stand."""
        job = await answered(context, lambda: self._job(request))
        reply = job_pb2.StatusReply(
            round=job.round,
            switch_state=self._state(job),
            reasons=await self._reasons(job),
            changes=[job_pb2.Change(epoch=epoch, reason=why) for epoch, why in job.changes],
        )
        if job.current is not None:
            reply.epoch = job.current.epoch
            reply.fraction_bits = job.current.fraction_bits
            reply.version = job.current.version
            reply.hot_keys = len(job.current.placement)
        if job.standing is not None:
            reported_at, standing = job.standing
            reply.standing.CopyFrom(to_message(standing))
            reply.reported_s_ago = time.monotonic() - reported_at
        return reply

    async def FollowReads(
        self, request: job_pb2.FollowReadsRequest, context: Context
    ) -> AsyncIterator[job_pb2.ReadRows]:
        """Send what the server is asked to read."""
        try:
            self._job(request)
            async for question in self._controller.reads.follow(request.job):
                yield question
        except LibraError as error:
            await refuse(context, error)

    async def TellRows(
        self, request: job_pb2.TellRowsRequest, context: Context
    ) -> job_pb2.TellRowsReply:
        """Hand on what the server has read."""
        await answered(context, lambda: self._controller.reads.tell(request))
        return job_pb2.TellRowsReply()

    def _job(self, request: Any) -> JobKeeper:
        return self._controller.job(request.job)

    def _state(self, job: JobKeeper) -> job_pb2.SwitchState:
        if not all(self._controller.switches[name].is_ready for name in job.needed):
            return job_pb2.SWITCH_STATE_DOWN
        return job_pb2.SWITCH_STATE_READY if job.is_on_switch else job_pb2.SWITCH_STATE_UNUSED

    async def _reasons(self, job: JobKeeper) -> dict[str, int]:
        """The packets of its switches by reason, without those that cannot be read."""
        total: Counter[str] = Counter()
        for seat in (job.record.seat_on(name) for name in job.needed):
            connection = self._controller.switches[seat.switch].connection
            if connection is None:
                continue
            with suppress(TimeoutError, fy.P4ClientError):
                async with asyncio.timeout(COUNTERS_S):
                    total.update(await read_reasons(connection, seat.slot))
        return dict(total)


def _read(request: Any) -> Request:
    if not (0 < request.seen_epoch <= MAX_EPOCH and request.round <= MAX_ROUND):
        raise BadInput(
            f"epoch {request.seen_epoch}, round {request.round}: allowed are epochs 1 to "
            f"{MAX_EPOCH} and rounds to {MAX_ROUND}"
        )
    return Request(request.seen_epoch, request.round, request.reason[:MAX_REASON])


def _message(job: int, incarnation: Incarnation) -> job_pb2.Incarnation:
    placement = io.BytesIO()
    incarnation.placement.save(placement)
    return job_pb2.Incarnation(
        job=job,
        epoch=incarnation.epoch,
        round=incarnation.round,
        fraction_bits=incarnation.fraction_bits,
        version=incarnation.version,
        placement=placement.getvalue(),
        planned=incarnation.planned,
        chain=incarnation.chain,
        on_switch=incarnation.on_switch,
    )
