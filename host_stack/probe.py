"""PROBE: ask the first switch on the way whether it knows the job, and with which layout."""

from __future__ import annotations

import time

import numpy as np

from host_stack.codec import PROBE, fill_header, overlay, version_op
from host_stack.errors import LayoutMismatch
from host_stack.job import Job
from host_stack.layout import Layout, make_tag
from host_stack.readiness import wait_readable
from host_stack.transport import Transport, ipv4
from host_stack.wire import Flag, Op

TRIES = 5
TRY_S = 0.1


def probe(job: Job, worker: int, transport: Transport) -> bool:
    """Whether the job's switch answers, as rank `worker` of the job.

    A switch that does not know the job stays silent: its packets then go on to the server.

    Raises:
        LayoutMismatch: the switch answers with another layout or epoch than the job's.
    """
    request = np.zeros(1, PROBE)
    fill_header(request["header"], Op.PROBE, job=job.job, worker=worker, tag=make_tag(job.epoch, 0))
    data = request.view(np.uint8).reshape(1, PROBE.itemsize)
    lengths = np.full(1, PROBE.itemsize, np.int64)
    for _ in range(TRIES):
        transport.send(data, lengths, ipv4(job.switch))
        deadline = time.monotonic() + TRY_S
        while (left := deadline - time.monotonic()) > 0:
            if wait_readable(transport.fileno(), left) and _take(job, transport):
                return True
    return False


def _take(job: Job, transport: Transport) -> bool:
    """Read a batch; true if it holds an answer, which then agrees with the job."""
    received = transport.receive()
    answers = overlay(received.data, PROBE)
    mine = (
        (received.lengths == PROBE.itemsize)
        & (received.sources == ipv4(job.switch))
        & (answers["header"]["version_op"] == version_op(Op.PROBE))
        & (answers["header"]["flags"] & Flag.REPLY != 0)
        & (answers["header"]["job"] == job.job)
    )
    if not mine.any():
        return False
    answer = answers[mine][0]
    found = Layout(
        lanes=int(answer["lanes"]),
        rows=int(answer["rows"]),
        window=int(answer["window"]),
        program=int(answer["program"]),
    )
    job.layout.require(found, f"switch {job.switch}")
    if int(answer["epoch"]) != job.epoch:
        raise LayoutMismatch(
            f"epoch is {job.epoch} here and {int(answer['epoch'])} at switch {job.switch}"
        )
    return True
