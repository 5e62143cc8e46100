"""`host_stack.standing.Standing` as a message of the job API."""

from __future__ import annotations

import math

import numpy as np

from controller.jobapi import job_pb2
from host_stack.errors import BadInput
from host_stack.exponents import EXPONENTS
from host_stack.layout import MAX_ROUND
from host_stack.standing import Standing

MAX_COUNT = 1 << 53
"""Of one exponent: far above what is kept."""


def to_message(standing: Standing) -> job_pb2.Standing:
    """The message that says the same."""
    return job_pb2.Standing(
        round=standing.round,
        gradients=standing.gradients,
        escaped=standing.escaped,
        goodput_bps=standing.goodput_bps,
        exponents={
            int(exponent): int(standing.exponents[exponent])
            for exponent in np.flatnonzero(standing.exponents)
        },
    )


def from_message(message: job_pb2.Standing) -> Standing:
    """What a message says; `BadInput` if it cannot be."""
    counts = dict(message.exponents)
    if any(exponent >= EXPONENTS for exponent in counts):
        raise BadInput(f"exponent {max(counts)}: allowed are 0 to {EXPONENTS - 1}")
    if message.round > MAX_ROUND or max(counts.values(), default=0) > MAX_COUNT:
        raise BadInput(f"round {message.round}, or a count above {MAX_COUNT}")
    if not 0 <= message.goodput_bps < math.inf:
        raise BadInput(f"goodput {message.goodput_bps} bit/s")
    exponents = np.zeros(EXPONENTS, np.int64)
    exponents[list(counts.keys())] = list(counts.values())
    return Standing(
        message.round, message.gradients, message.escaped, message.goodput_bps, exponents
    )
