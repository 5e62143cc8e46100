"""Messages of the control API, to and from what the controller works with."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

from controller.daemon.controller import Ask, Controller
from controller.daemon.job_keeper import JobKeeper
from controller.daemon.job_record import JobRecord, Placed
from controller.daemon.store import StoredEvent
from controller.daemon.switch_keeper import SwitchKeeper
from controller.jobapi import control_pb2
from controller.placing.blocks import Block
from host_stack.errors import BadInput
from host_stack.job import DEFAULT_TIMEOUTS_S
from host_stack.placement import Placement

PLACED = {
    control_pb2.PLACED_UNSPECIFIED: Placed.JOB,
    control_pb2.PLACED_JOB: Placed.JOB,
    control_pb2.PLACED_GROUP: Placed.GROUP,
    control_pb2.PLACED_NOTHING: Placed.NOTHING,
}
_PLACED_MESSAGE = {placed: message for message, placed in PLACED.items()}


def read_placement(data: bytes) -> Placement | None:
    """The placement of a message, None for none; `BadInput` if it is no .npz file of one."""
    return Placement.load(io.BytesIO(data)) if data else None


def read_ask(request: control_pb2.CreateJobRequest) -> Ask:
    """The job that is asked for; `BadInput` if a field cannot be read."""
    spec = request.spec
    if spec.placed not in PLACED:
        raise BadInput(f"placed {spec.placed}: allowed are {', '.join(map(str, PLACED))}")
    host, _, port = spec.scheduler.rpartition(":")
    if not host or not port.isdecimal():
        raise BadInput(f"scheduler {spec.scheduler!r}: ADDRESS:PORT is needed")
    timeouts = dict(spec.timeouts_s) or dict(DEFAULT_TIMEOUTS_S)
    record = JobRecord(
        job=spec.job,
        fraction_bits=spec.fraction_bits,
        num_keys=spec.num_keys,
        workers=tuple(spec.workers),
        server=spec.server,
        group=spec.group,
        scheduler=(host, int(port)),
        switch=spec.switch,
        placed=PLACED[spec.placed],
        slot=0,
        block=Block(0, 1),
        group_id=0,
        transport=spec.transport or "batch",
        timeouts_s=tuple(sorted(timeouts.items())),
        key_file=spec.key_file,
    )
    return Ask(record, spec.rows, read_placement(request.placement))


def spec_message(record: JobRecord) -> control_pb2.JobSpec:
    """What a job was asked for with, and where it went."""
    return control_pb2.JobSpec(
        job=record.job,
        fraction_bits=record.fraction_bits,
        num_keys=record.num_keys,
        workers=record.workers,
        server=record.server,
        switch=record.switch,
        group=record.group,
        scheduler=f"{record.scheduler[0]}:{record.scheduler[1]}",
        placed=_PLACED_MESSAGE[record.placed],
        rows=record.block.rows,
        transport=record.transport,
        timeouts_s=dict(record.timeouts_s),
        key_file=record.key_file,
    )


def job_message(controller: Controller, job: JobKeeper) -> control_pb2.JobInfo:
    """How a job stands."""
    record, current = job.record, job.current
    info = control_pb2.JobInfo(
        spec=spec_message(record),
        state=_state(controller, job),
        version=job.version,
        hot_keys=len(job.placement),
        slot=record.slot,
        row_base=record.block.row_base,
        rows=record.block.rows,
        group_id=record.group_id,
        chain=[
            control_pb2.Seat(
                switch=seat.switch,
                slot=seat.slot,
                row_base=seat.block.row_base,
                rows=seat.block.rows,
            )
            for seat in record.chain
        ],
    )
    if current is not None:
        info.epoch, info.installed_version = current.epoch, current.version
        info.spec.fraction_bits = current.fraction_bits
    if not job.is_waiting:
        info.job_file = json.dumps(asdict(controller.describe_for_hosts(job)))
    return info


def _state(controller: Controller, job: JobKeeper) -> control_pb2.JobState:
    if job.is_waiting:
        return control_pb2.JOB_STATE_DECLARED
    if job.current is None:
        return control_pb2.JOB_STATE_PENDING
    if job.is_on_switch and not all(controller.switches[name].is_ready for name in job.needed):
        return control_pb2.JOB_STATE_DOWN
    return control_pb2.JOB_STATE_READY


def switch_message(controller: Controller, switch: SwitchKeeper) -> control_pb2.SwitchInfo:
    """How a switch stands, and what room it has."""
    rows = controller.rows_of(switch.spec.name)
    return control_pb2.SwitchInfo(
        name=switch.spec.name,
        address=switch.spec.address,
        target=switch.spec.target,
        device_id=switch.spec.device_id,
        rack=switch.spec.rack,
        ready=switch.is_ready,
        reason=switch.reason,
        rows=controller.layout_of(switch.spec.name).rows,
        free_rows=rows.free_rows,
        free=[control_pb2.Block(base=block.row_base, rows=block.rows) for block in rows.free()],
        fragmentation=rows.fragmentation,
        jobs=sorted(job.record.job for job in switch.jobs),
        written=switch.written,
    )


def event_message(event: StoredEvent) -> control_pb2.Event:
    """Something that happened."""
    return control_pb2.Event(
        number=event.number,
        at_s=event.at_s,
        kind=event.kind,
        job=event.job,
        switch=event.switch,
        text=event.text,
    )
