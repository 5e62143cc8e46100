"""What a command asks the controller of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.channel import CALL_S, ControllerAddress, calls
from controller.jobapi.standing import from_message
from host_stack.exponents import ScaleAdvice, advise
from host_stack.standing import Standing


@dataclass(frozen=True)
class JobStatus:
    """How a job stands, as its controller knows.

    Attributes:
        epoch, fraction_bits, version: of the newest incarnation; epoch 0 before the first.
        round: the lowest that is not committed, when the server last said so.
        hot_keys: on the switch.
        switch: `ready`, `down`, or `unused` where the job is not on it.
        reasons: the switch's packets by reason, since its program was loaded.
        changes: (epoch, why it was made) of the last ones, oldest first.
        standing: what the server reported last; None before it has.
        reported_s_ago: how long ago that was.
    """

    epoch: int
    round: int
    fraction_bits: int
    version: int
    hot_keys: int
    switch: str
    reasons: dict[str, int]
    changes: list[tuple[int, str]]
    standing: Standing | None = None
    reported_s_ago: float = 0.0

    @property
    def scale(self) -> ScaleAdvice | None:
        """How F fits the gradients; None before any was sampled, or while no F is known.

        A controller that was started again knows its job's epoch, and F, once it has read the
        switch.
        """
        if self.standing is None or not self.epoch:
            return None
        return advise(self.standing.exponents, self.fraction_bits)

    def scale_fields(self) -> dict[str, Any] | None:
        """What was committed, what of it escaped, and how F fits; None before anything was."""
        standing, scale = self.standing, self.scale
        if standing is None or scale is None:
            return None
        return {
            "gradients": standing.gradients,
            "escaped": standing.escaped,
            "escaping_share": scale.escaping,
            "vanishing_share": scale.vanishing,
            "better_fraction_bits": scale.better,
            "advice": scale.told(),
            "exponents": {
                int(exponent): int(standing.exponents[exponent])
                for exponent in np.flatnonzero(standing.exponents)
            },
        }


def read_status(address: ControllerAddress, job: int, timeout_s: float = CALL_S) -> JobStatus:
    """How a job stands; `NoController` if its controller does not answer in time."""
    with calls(address) as channel:
        stub = job_pb2_grpc.JobServiceStub(channel)
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
        from_message(reply.standing) if reply.HasField("standing") else None,
        reply.reported_s_ago,
    )
