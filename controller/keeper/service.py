"""The job API of a keeper, served over a Unix-domain socket."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.standing import from_message, to_message
from controller.keeper.config import Placed
from controller.keeper.keeper import Keeper, Request, SwitchState
from host_stack.errors import BadInput, LibraError
from host_stack.incarnation import MAX_PLACEMENT_BYTES, Incarnation
from host_stack.layout import MAX_EPOCH, MAX_ROUND
from host_stack.placement import Placement

MAX_MESSAGE_BYTES = MAX_PLACEMENT_BYTES + (1 << 16)
MAX_REASON = 300
"""Characters of a reason that are kept."""

Context = Any
"""grpc.aio.ServicerContext, generic in the generated code only."""


class JobService(job_pb2_grpc.JobServiceServicer):  # type: ignore[misc]
    """Answers for one keeper."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def Watch(
        self, request: job_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[job_pb2.Incarnation]:
        """Send the incarnation that holds, and each further one."""
        await self._check_job(request.job, context)
        epoch = None
        while True:
            incarnation = await self._keeper.after(epoch)
            epoch = incarnation.epoch
            yield self._message(incarnation)

    async def Renew(self, request: job_pb2.RenewRequest, context: Context) -> job_pb2.RenewReply:
        """Make another incarnation."""
        await self._keeper.renew(await self._read(request, context))
        return job_pb2.RenewReply()

    async def Suspect(
        self, request: job_pb2.SuspectRequest, context: Context
    ) -> job_pb2.SuspectReply:
        """Look at the switch."""
        await self._keeper.suspect(await self._read(request, context))
        return job_pb2.SuspectReply()

    async def Report(self, request: job_pb2.ReportRequest, context: Context) -> job_pb2.ReportReply:
        """Remember how the job stands."""
        await self._check_job(request.job, context)
        try:
            self._keeper.report(from_message(request.standing))
        except BadInput as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return job_pb2.ReportReply()

    async def Place(self, request: job_pb2.PlaceRequest, context: Context) -> job_pb2.PlaceReply:
        """Give the job another placement."""
        await self._check_job(request.job, context)
        try:
            placement = Placement.load(io.BytesIO(request.placement))
            version = await self._keeper.place(placement, request.fraction_bits)
        except LibraError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return job_pb2.PlaceReply(version=version)

    async def Status(self, request: job_pb2.StatusRequest, context: Context) -> job_pb2.StatusReply:
        """How things stand."""
        await self._check_job(request.job, context)
        keeper = self._keeper
        reply = job_pb2.StatusReply(
            round=keeper.round,
            switch_state=_state(keeper),
            reasons=await keeper.reasons(),
            changes=[job_pb2.Change(epoch=epoch, reason=why) for epoch, why in keeper.changes],
        )
        if keeper.current is not None:
            reply.epoch = keeper.current.epoch
            reply.fraction_bits = keeper.current.fraction_bits
            reply.version = keeper.current.version
            reply.hot_keys = len(keeper.current.placement)
        if keeper.standing is not None:
            reported_at, standing = keeper.standing
            reply.standing.CopyFrom(to_message(standing))
            reply.reported_s_ago = time.monotonic() - reported_at
        return reply

    async def _check_job(self, job: int, context: Context) -> None:
        mine = self._keeper.job.job
        if job != mine:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"job {job} is not known here, but job {mine} is"
            )

    async def _read(self, request: Any, context: Context) -> Request:
        await self._check_job(request.job, context)
        if not (0 < request.seen_epoch <= MAX_EPOCH and request.round <= MAX_ROUND):
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"epoch {request.seen_epoch}, round {request.round}: allowed are epochs 1 to "
                f"{MAX_EPOCH} and rounds to {MAX_ROUND}",
            )
        return Request(request.seen_epoch, request.round, request.reason[:MAX_REASON])

    def _message(self, incarnation: Incarnation) -> job_pb2.Incarnation:
        placement = io.BytesIO()
        incarnation.placement.save(placement)
        return job_pb2.Incarnation(
            job=self._keeper.job.job,
            epoch=incarnation.epoch,
            round=incarnation.round,
            fraction_bits=incarnation.fraction_bits,
            version=incarnation.version,
            placement=placement.getvalue(),
            planned=incarnation.planned,
        )


def _state(keeper: Keeper) -> job_pb2.SwitchState:
    if keeper.switch_state is SwitchState.DOWN:
        return job_pb2.SWITCH_STATE_DOWN
    if keeper.config.placed is Placed.JOB:
        return job_pb2.SWITCH_STATE_READY
    return job_pb2.SWITCH_STATE_UNUSED


async def serve(keeper: Keeper) -> grpc.aio.Server:
    """Serve a keeper's job API at its socket; `BadInput` if that cannot be bound."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ]
    )
    job_pb2_grpc.add_JobServiceServicer_to_server(JobService(keeper), server)
    try:
        server.add_insecure_port(f"unix:{keeper.config.socket}")
    except RuntimeError as error:
        raise BadInput(
            f"cannot listen at {keeper.config.socket}: {error}; is another keeper running?"
        ) from error
    await server.start()
    return server
