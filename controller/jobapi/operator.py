"""An operator as client of a controller: jobs, switches, counters, events."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from controller.errors import NotNow
from controller.jobapi import control_pb2, control_pb2_grpc
from controller.jobapi.channel import CALL_S, ControllerAddress, calls
from host_stack.job import Job
from host_stack.placement import Placement

POLL_S = 0.05

DUMP_S = 20.0
"""How long at least cells are waited for: drains of a switch that is silent are tried again."""

THROUGH = {
    "registers": control_pb2.THROUGH_REGISTERS,
    "drains": control_pb2.THROUGH_DRAINS,
}
"""How cells can be read."""

PLACED = {
    "job": control_pb2.PLACED_JOB,
    "group": control_pb2.PLACED_GROUP,
    "nothing": control_pb2.PLACED_NOTHING,
}


def spec_of(job: Job, *, placed: str = "job", switch: str = "", rows: int = 0) -> Any:
    """What has to be asked for so that a job can run."""
    return control_pb2.JobSpec(
        job=job.job,
        fraction_bits=job.fraction_bits,
        num_keys=job.num_keys,
        workers=job.workers,
        server=job.server,
        switch=switch,
        group=job.group,
        scheduler=f"{job.scheduler[0]}:{job.scheduler[1]}",
        placed=PLACED[placed],
        rows=rows,
        transport=job.transport,
        timeouts_s=job.timeouts_s,
        key_file=job.key_file,
    )


def npz(placement: Placement) -> bytes:
    """A placement as the API carries it."""
    file = io.BytesIO()
    placement.save(file)
    return file.getvalue()


class Operator:
    """Asks one controller; all methods raise what `calls` raises.

    A call that changes something is sent again after a broken connection, with the same request
    id, and so carried out once.
    """

    def __init__(self, address: ControllerAddress, timeout_s: float = CALL_S) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def create(self, spec: Any, placement: Placement | None) -> Any:
        """Create a job; returns its `JobInfo`."""
        data = b"" if placement is None else npz(placement)
        return self._change("CreateJob", control_pb2.CreateJobRequest(spec=spec, placement=data))

    def describe(self, job: int) -> Any:
        """The `JobInfo` of a job."""
        return self._ask("DescribeJob", control_pb2.DescribeJobRequest(job=job))

    def jobs(self) -> list[Any]:
        """The `JobInfo` of every job."""
        found: list[Any] = []
        while True:
            after = found[-1].spec.job if found else 0
            page = self._ask("ListJobs", control_pb2.ListJobsRequest(after_job=after))
            found += page.jobs
            if not page.more:
                return found

    def delete(self, job: int) -> None:
        """Delete a job."""
        self._change("DeleteJob", control_pb2.DeleteJobRequest(job=job))

    def change(self, job: int, placement: Placement | None, fraction_bits: int | None) -> Any:
        """Give a job another placement, another F or both; returns its `JobInfo`."""
        data = b"" if placement is None else npz(placement)
        request = control_pb2.ChangeJobRequest(job=job, placement=data, fraction_bits=fraction_bits)
        return self._change("ChangeJob", request)

    def declare(self, job: int, workers: list[str]) -> Any:
        """Give a job its workers; returns its `JobInfo`."""
        request = control_pb2.DeclareWorkersRequest(job=job, workers=workers)
        return self._change("DeclareWorkers", request)

    def switches(self) -> list[Any]:
        """The `SwitchInfo` of every switch."""
        return list(self._ask("ListSwitches", control_pb2.ListSwitchesRequest()).switches)

    def stats(self, job: int = 0, switch: str = "") -> Any:
        """A `ReadStatsReply`."""
        return self._ask("ReadStats", control_pb2.ReadStatsRequest(job=job, switch=switch))

    def dump(
        self,
        job: int,
        row: int,
        rows: int,
        *,
        windows: bool = False,
        switch: str = "",
        through: str | None = None,
    ) -> Any:
        """A `DumpReply`; `through` is one of `THROUGH`, None for what the switch allows."""
        way = control_pb2.THROUGH_UNSPECIFIED if through is None else THROUGH[through]
        request = control_pb2.DumpRequest(
            job=job, row=row, rows=rows, windows=windows, switch=switch, through=way
        )
        return self._ask("Dump", request, max(self._timeout_s, DUMP_S))

    def events(self, after: int = 0, job: int = 0, *, stop_at_end: bool = True) -> Iterator[Any]:
        """Events in order; without `stop_at_end` it waits for further ones."""
        request = control_pb2.WatchEventsRequest(after=after, job=job, stop_at_end=stop_at_end)
        with calls(self._address) as channel:
            stub = control_pb2_grpc.ControlServiceStub(channel)
            yield from stub.WatchEvents(request, wait_for_ready=True)

    def wait_ready(self, job: int, version: int, timeout_s: float) -> Any:
        """Wait until a placement of a job is installed; returns its `JobInfo`.

        Raises `NotNow` with the state of the job if it is not, in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            info = self.describe(job)
            if info.state == control_pb2.JOB_STATE_READY and info.installed_version >= version:
                return info
            if time.monotonic() > deadline:
                raise NotNow(
                    f"job {job} is not installed within {timeout_s:g} s: it is "
                    f"{state_name(info)}; {self._why_down(info.spec.switch)}"
                )
            time.sleep(POLL_S)

    def _why_down(self, name: str) -> str:
        for switch in self.switches():
            if switch.name == name and not switch.ready:
                return f"{name} is down: {switch.reason}"
        return f"{name} is up"

    @contextmanager
    def _stub(self) -> Iterator[Any]:
        with calls(self._address) as channel:
            yield control_pb2_grpc.ControlServiceStub(channel)

    def _ask(self, name: str, request: Any, timeout_s: float | None = None) -> Any:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        with self._stub() as stub:
            return getattr(stub, name)(request, timeout=limit_s, wait_for_ready=True)

    def _change(self, name: str, request: Any) -> Any:
        request.request_id = str(uuid.uuid4())
        with self._stub() as stub:
            call = getattr(stub, name)
            try:
                return call(request, timeout=self._timeout_s, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return call(request, timeout=self._timeout_s, wait_for_ready=True)


def state_name(info: Any) -> str:
    """The state of a job, in lower case."""
    return control_pb2.JobState.Name(info.state).removeprefix("JOB_STATE_").lower()
