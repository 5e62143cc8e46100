"""A job's server reads rows of its switches when its controller asks (`libra dump`)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc

from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.channel import CALL_S, ControllerAddress
from controller.jobapi.follower import Follower
from host_stack.errors import LibraError
from host_stack.job import Job
from host_stack.layout import TAG_ROUNDS, rounds_before
from host_stack.row_reader import RoundCells, RowReader

LOGGER = logging.getLogger(__name__)


class RowAnswers:
    """Answers the questions of a controller, in a thread of its own, as long as it is open.

    The switch answers drains to the job's server alone; so this is where they are sent from.
    """

    def __init__(
        self, address: ControllerAddress, job: Job, round_of: Callable[[], int], reader: RowReader
    ) -> None:
        """Follow what a controller asks of `job`.

        `round_of` tells the lowest round that is not committed, from any thread.
        """
        self._job = job
        self._round_of = round_of
        self._reader = reader
        self._channel = address.open()
        self._stub = job_pb2_grpc.JobServiceStub(self._channel)
        self._follower = Follower(
            "row-reads",
            lambda: self._stub.FollowReads(job_pb2.FollowReadsRequest(job=job.job)),
            self._answer,
            lambda error: None,  # whoever follows epochs says that the controller is away
        )

    def close(self) -> None:
        """Answer nothing any more."""
        self._follower.close(self._channel)
        self._reader.close()

    def _answer(self, asked: job_pb2.ReadRows) -> None:
        open_round = self._round_of()
        reply = job_pb2.TellRowsRequest(
            job=self._job.job, number=asked.number, open_round=open_round
        )
        rounds = rounds_to_read(open_round)
        try:
            found = self._reader.read(
                asked.epoch, tuple(asked.chain), rounds, asked.row, asked.rows
            )
        except LibraError as error:
            reply.failure = str(error)
        else:
            for each in found:
                _add(reply, each)
        try:
            self._stub.TellRows(reply, timeout=CALL_S)
        except grpc.RpcError as error:
            LOGGER.warning("the controller did not take rows that it asked for: %s", error.code())


def rounds_to_read(open_round: int) -> range:
    """The last round that is committed and the two that are open, as far as one epoch has them."""
    first = rounds_before(open_round)
    return range(max(first, open_round - 1), min(open_round + 2, first + TAG_ROUNDS))


def _add(reply: job_pb2.TellRowsRequest, found: RoundCells) -> None:
    for row, lane, digits in zip(found.rows, found.lanes, found.sums, strict=True):
        reply.cells.add(round=found.round, row=int(row), lane=int(lane), digits_value=int(digits))
