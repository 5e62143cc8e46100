"""`libra job`: create, list, describe and delete jobs; `libra push`: give one other hot keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.cli_connection import (
    AsJson,
    Controller,
    JobOption,
    Tls,
    checked,
    fields_of,
    operator_of,
    print_json,
)
from controller.jobapi import control_pb2
from controller.jobapi.operator import PLACED, Operator, state_name
from controller.jobapi.shards import (
    SCHEDULER_PORT,
    change_all,
    create_all,
    declare_all,
    delete_all,
    group_of,
    job_file_of,
    shards_of,
    specs_of,
    split_placement,
    to_change,
)
from host_stack.errors import BadInput
from host_stack.kv.curve import JobKey
from host_stack.placement import Placement

app = typer.Typer(no_args_is_help=True, help="Jobs of a controller.")

MAX_WAIT_S = 86400.0


def _check_wait(seconds: float) -> float:
    if not 0 <= seconds <= MAX_WAIT_S:
        raise BadInput(f"--wait {seconds}: allowed are 0 to {MAX_WAIT_S:g} s")
    return seconds


Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Wait until it is installed; 0 for not at all.",
        callback=_check_wait,
    ),
]
Servers = Annotated[
    int, typer.Option(help="Of a job with several servers: all of it, JOB, JOB + 1, …")
]


@app.command()
def create(
    job: JobOption,
    num_keys: Annotated[int, typer.Option(help="Keys are 0 to this number - 1.")],
    server: Annotated[
        str,
        typer.Option(
            help="IPv4 address of the parameter server. Of several, with commas, each gets a range "
            "of the keys and is a job of its own: JOB, JOB + 1, …"
        ),
    ],
    fraction_bits: Annotated[int, typer.Option("--fraction-bits", "-F", help="Scale F.")],
    workers: Annotated[
        str, typer.Option(help="IPv4 addresses by rank, with commas; none, to declare them later.")
    ] = "",
    placement: Annotated[
        Path | None, typer.Option(help="placement.npz of `libra place`; default: no hot keys.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="IPv4 multicast group of UPDATEs; default: 239.19.x.y of it.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="ADDRESS:PORT of the cold path; default: SERVER:9700.")
    ] = None,
    switch: Annotated[str, typer.Option(help="Default: the one at which the server hangs.")] = "",
    rows: Annotated[int, typer.Option(help="Rows to keep; 0: what the placement needs.")] = 0,
    placed: Annotated[
        str, typer.Option(help=f"What of it is on the switch: {', '.join(PLACED)}.")
    ] = "job",
    key_file: Annotated[
        str, typer.Option(help="Path, on its hosts, of the key of `libra key`: encrypt cold keys.")
    ] = "",
    wait: Wait = 0.0,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Create a job: the controller gives it rows, a slot and a group, and installs it."""
    if placed not in PLACED:
        raise BadInput(f"placed {placed!r}: allowed are {', '.join(PLACED)}")
    servers = addresses(server)
    if len(servers) != 1 and (group, scheduler, switch, rows) != (None, None, "", 0):
        raise BadInput(
            f"server {server!r}: of several servers each has a group, scheduler, switch and rows "
            "of its own, which cannot be given"
        )
    spec = control_pb2.JobSpec(
        job=checked(job, "job"),
        fraction_bits=fraction_bits,
        num_keys=checked(num_keys, "num-keys"),
        workers=addresses(workers),
        server=server,
        switch=switch,
        group=group or group_of(job),
        scheduler=scheduler or f"{server}:{SCHEDULER_PORT}",
        placed=PLACED[placed],
        rows=checked(rows, "rows"),
        key_file=key_file,
    )
    operator = operator_of(controller, tls)
    specs = specs_of(spec, servers)
    hot: list[Placement | None] = [None] * len(specs)
    if placement is not None:
        hot[:] = split_placement(Placement.load(placement), [each.num_keys for each in specs])
    infos = create_all(operator, specs, hot, lambda info: waited(operator, info, wait))
    show_jobs(infos, as_json=as_json)


@app.command("list")
def list_jobs(controller: Controller = None, tls: Tls = None, as_json: AsJson = False) -> None:
    """List the jobs."""
    jobs = operator_of(controller, tls).jobs()
    if as_json:
        print_json({"schema": 1, "jobs": [job_fields(job) for job in jobs]})
        return
    table = Table("job", "state", "switch", "rows", "workers", "hot keys", "epoch", "F")
    for job in jobs:
        table.add_row(
            str(job.spec.job),
            state_name(job),
            job.spec.switch,
            f"{job.row_base}…+{job.rows}",
            str(len(job.spec.workers)),
            f"{job.hot_keys:,}",
            str(job.epoch or "–"),
            str(job.spec.fraction_bits),
        )
    Console().print(table)


@app.command()
def describe(
    job: JobOption,
    job_file: Annotated[
        Path | None, typer.Option(help="Also write what its hosts need, job.json, here.")
    ] = None,
    servers: Servers = 1,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Describe a job."""
    infos = shards_of(operator_of(controller, tls), checked(job, "job"), servers)
    if job_file is not None:
        job_file_of(infos).save(job_file)
    show_jobs(infos, as_json=as_json)


@app.command()
def delete(
    job: JobOption,
    servers: Servers = 1,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Delete a job; its rows are free at once."""
    operator = operator_of(controller, tls)
    infos = to_change(operator, checked(job, "job"), servers)
    delete_all(operator, infos)
    if as_json:
        print_json({"schema": 1, "deleted": job, "servers": servers})
        return
    for info in infos:
        typer.echo(f"job {info.spec.job} is deleted")


@app.command()
def workers(
    job: JobOption,
    given: Annotated[str, typer.Argument(metavar="WORKERS", help="IPv4 addresses by rank.")],
    servers: Servers = 1,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Declare the workers of a job, in another epoch if it runs."""
    operator = operator_of(controller, tls)
    infos = to_change(operator, checked(job, "job"), servers)
    show_jobs(declare_all(operator, infos, addresses(given)), as_json=as_json)


def key(
    path: Annotated[Path, typer.Argument(help="File to make; its owner alone may read it.")],
    as_json: AsJson = False,
) -> None:
    """Make the key of a job, which encrypts what its hosts tell each other on the cold path.

    Carry the file to all hosts of the job, and give its path there to `libra job create`.
    """
    JobKey.make().save(path)
    if as_json:
        print_json({"schema": 1, "key_file": str(path)})
        return
    typer.echo(f"{path} is a secret: copy it to the hosts of the job, and to nobody else")


def push(
    job: JobOption,
    placement: Annotated[
        Path | None, typer.Argument(help="placement.npz of `libra place`; default: keep it.")
    ] = None,
    fraction_bits: Annotated[
        int | None, typer.Option("--fraction-bits", "-F", help="Scale F; default: keep it.")
    ] = None,
    servers: Servers = 1,
    wait: Wait = 0.0,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Give a running job another placement, another F, or both; training goes on meanwhile."""
    operator = operator_of(controller, tls)
    hot = None if placement is None else Placement.load(placement)
    infos = to_change(operator, checked(job, "job"), servers)
    changed = change_all(operator, infos, hot, fraction_bits)
    show_jobs([waited(operator, info, wait) for info in changed], as_json=as_json)


def addresses(text: str) -> list[str]:
    """IPv4 addresses with commas between them; the controller checks them."""
    return [each.strip() for each in text.split(",") if each.strip()]


def waited(operator: Operator, info: Any, seconds: float) -> Any:
    """A job when its newest placement is installed, if that is to be waited for."""
    if seconds == 0:
        return info
    return operator.wait_ready(info.spec.job, info.version, seconds)


def job_fields(info: Any) -> dict[str, Any]:
    """A job for JSON."""
    found: dict[str, Any] = fields_of(info)
    found["state"] = state_name(info)
    found["spec"]["placed"] = found["spec"]["placed"].removeprefix("PLACED_").lower()
    found["spec"]["num_keys"], found["hot_keys"] = info.spec.num_keys, info.hot_keys
    found["job_file"] = json.loads(info.job_file) if info.job_file else None
    return found


def show_jobs(infos: list[Any], *, as_json: bool) -> None:
    """A job, or the shards of one with several servers."""
    if len(infos) == 1 or not as_json:
        for info in infos:
            show_job(info, as_json=as_json)
        return
    print_json({"schema": 1, "jobs": [job_fields(info) for info in infos]})


def show_job(info: Any, *, as_json: bool) -> None:
    """A job, for people or for programs."""
    if as_json:
        print_json({"schema": 1, "job": job_fields(info)})
        return
    spec = info.spec
    typer.echo(f"job {spec.job} is {state_name(info)}: epoch {info.epoch or 'none yet'}")
    typer.echo(
        f"{info.hot_keys:,} hot keys of {spec.num_keys:,}, placement {info.version}, "
        f"F = {spec.fraction_bits}"
    )
    typer.echo(
        f"switch {spec.switch}, slot {info.slot}, rows {info.row_base} to "
        f"{info.row_base + info.rows - 1}, group {spec.group}"
    )
    for seat in info.chain:
        typer.echo(
            f"before it {seat.switch}, slot {seat.slot}, rows {seat.row_base} to "
            f"{seat.row_base + seat.rows - 1}"
        )
    typer.echo(f"server {spec.server}, workers {', '.join(spec.workers) or 'not declared yet'}")
