"""What a command asks the controller of a job."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.client import CALL_S, OPTIONS, NoController
from host_stack.errors import BadInput
from host_stack.placement import Placement


@dataclass(frozen=True)
class JobStatus:
    """How a job stands, as its controller knows.

    Attributes:
        epoch, fraction_bits, version: of the newest incarnation; epoch 0 before the first.
        round: when the server last asked for something.
        hot_keys: on the switch.
        switch: `ready`, `down`, or `unused` where the job is not on it.
        reasons: the switch's packets by reason, since its program was loaded.
        changes: (epoch, why it was made) of the last ones, oldest first.
    """

    epoch: int
    round: int
    fraction_bits: int
    version: int
    hot_keys: int
    switch: str
    reasons: dict[str, int]
    changes: list[tuple[int, str]]


@contextmanager
def _stub(socket: Path, job: int) -> Iterator[Any]:
    """The job API of a keeper; its errors become ours."""
    with grpc.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        try:
            yield job_pb2_grpc.JobServiceStub(channel)
        except grpc.RpcError as error:
            if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}:
                raise BadInput(f"the controller refuses: {error.details()}") from error
            raise NoController(
                f"the controller of job {job} at {socket} does not answer: {error.details()}"
            ) from error


def read_status(socket: Path, job: int, timeout_s: float = CALL_S) -> JobStatus:
    """How a job stands; `NoController` if its keeper does not answer in time."""
    with _stub(socket, job) as stub:
        reply = stub.Status(job_pb2.StatusRequest(job=job), timeout=timeout_s, wait_for_ready=True)
    state = job_pb2.SwitchState.Name(reply.switch_state).removeprefix("SWITCH_STATE_")
    return JobStatus(
        reply.epoch,
        reply.round,
        reply.fraction_bits,
        reply.version,
        reply.hot_keys,
        state.lower(),
        dict(reply.reasons),
        [(change.epoch, change.reason) for change in reply.changes],
    )


def change_placement(socket: Path, job: int, placement: Placement, fraction_bits: int) -> int:
    """Give a job another placement, in another epoch; return its number.

    Raises:
        BadInput: it does not fit the job.
        NoController: the keeper does not answer.
    """
    file = io.BytesIO()
    placement.save(file)
    request = job_pb2.PlaceRequest(job=job, fraction_bits=fraction_bits, placement=file.getvalue())
    with _stub(socket, job) as stub:
        return int(stub.Place(request, timeout=CALL_S, wait_for_ready=True).version)
