"""`libra switches`, `stats`, `events`, `dump` and `probe`: looking at what runs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
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
from controller.cli_watch import Watch, repeated, shown
from controller.errors import NotNow
from controller.jobapi.operator import THROUGH
from host_stack.connect import open_transport
from host_stack.errors import BadInput, LibraError
from host_stack.job import Job
from host_stack.layout import SERVER_RANK
from host_stack.probe import probe as probe_switch


def switches(controller: Controller = None, tls: Tls = None, as_json: AsJson = False) -> None:
    """List the switches: state, free rows, how fragmented they are, and their jobs."""
    found = operator_of(controller, tls).switches()
    if as_json:
        print_json({"schema": 1, "switches": [switch_fields(each) for each in found]})
        return
    table = Table("switch", "state", "address", "target", "free rows", "largest", "frag.", "jobs")
    for each in found:
        table.add_row(
            each.name,
            "ready" if each.ready else f"down: {each.reason}",
            each.address,
            each.target,
            f"{each.free_rows:,} of {each.rows:,}",
            f"{max((block.rows for block in each.free), default=0):,}",
            f"{each.fragmentation:.0%}",
            ", ".join(map(str, each.jobs)),
        )
    Console().print(table)


def switch_fields(info: Any) -> dict[str, Any]:
    """A switch for JSON."""
    found: dict[str, Any] = fields_of(info)
    found["device_id"], found["written"] = info.device_id, info.written
    return found


def stats(
    job: Annotated[int, typer.Option("--job", "-j", help="0 for all.")] = 0,
    switch: Annotated[str, typer.Option(help="Default: all.")] = "",
    watch: Watch = None,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Count packets: by reason, of each job at each switch; by worker; foreign ones by port.

    Since the program of a switch was loaded, of workers since these were installed. Job 0 stands
    for packets of no known job.
    """
    operator = operator_of(controller, tls)

    def ask() -> Any:
        return operator.stats(checked(job, "job"), switch)

    if as_json:
        repeated(lambda: print_json(stats_fields(ask())), watch)
    else:
        shown(lambda: Group(*stats_tables(ask())), watch)


def stats_fields(reply: Any) -> dict[str, Any]:
    """Counters for JSON."""
    return {
        "schema": 1,
        "counts": [
            {"switch": each.switch, "job": each.job, "reason": each.reason, "packets": each.packets}
            for each in reply.counts
        ],
        "missing": list(reply.missing),
        "members": [
            {
                "switch": each.switch,
                "job": each.job,
                "worker": None if each.worker == SERVER_RANK else each.worker,
                "port": each.port,
                "address": each.address,
                "packets": each.packets,
            }
            for each in reply.members
        ],
        "foreign": [
            {"switch": each.switch, "port": each.port, "packets": each.packets}
            for each in reply.foreign
        ],
    }


def stats_tables(reply: Any) -> Iterator[Table]:
    """Counters for people; tables that would be empty are left out."""
    yield reasons_table(reply)
    members = Table("switch", "job", "member", "address", "port", "packets")
    for each in sorted(reply.members, key=lambda each: (each.switch, each.job, each.worker)):
        who = "server, switch" if each.worker == SERVER_RANK else f"worker {each.worker}"
        port, packets = str(each.port), f"{each.packets:,}"
        members.add_row(each.switch, str(each.job), who, each.address, port, packets)
    if reply.members:
        yield members
    foreign = Table("switch", "port", "foreign packets")
    for each in reply.foreign:
        foreign.add_row(each.switch, str(each.port), f"{each.packets:,}")
    if reply.foreign:
        yield foreign


def reasons_table(reply: Any) -> Table:
    """A line for each reason, and switches that could not be read."""
    table = Table("switch", "job", "reason", "packets", "share")
    totals: Counter[tuple[str, int]] = Counter()
    for each in reply.counts:
        totals[each.switch, each.job] += each.packets
    for each in sorted(reply.counts, key=lambda each: (each.switch, each.job, -each.packets)):
        share = each.packets / totals[each.switch, each.job]
        owner = str(each.job or "none")
        table.add_row(each.switch, owner, each.reason, f"{each.packets:,}", f"{share:.1%}")
    for name in reply.missing:
        table.add_row(name, "", "cannot be read", "", "")
    return table


def events(
    job: Annotated[int, typer.Option("--job", "-j", help="0 for all.")] = 0,
    after: Annotated[int, typer.Option(help="Number of the last event that is known.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Tell what has happened: jobs, epochs, switches. With --json a line of JSON for each event."""
    operator = operator_of(controller, tls)
    for each in operator.events(after, checked(job, "job"), stop_at_end=not follow):
        if as_json:
            fields = {**fields_of(each), "number": each.number, "schema": 1}
            typer.echo(json.dumps(fields))
            continue
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.at_s))
        where = f"job {each.job}: " if each.job else f"{each.switch}: " if each.switch else ""
        typer.echo(f"{each.number:>6} {at} {each.kind:<13} {where}{each.text}")


def dump(
    job: JobOption,
    row: Annotated[int, typer.Option(help="First row, counted from that of the job.")] = 0,
    rows: Annotated[int, typer.Option(help="How many; at most 64.")] = 1,
    windows: Annotated[
        bool, typer.Option("--windows", help="Sequence windows of the workers too.")
    ] = False,
    switch: Annotated[
        str, typer.Option(help="One that sums for the job; default: the one of its server.")
    ] = "",
    through: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="registers: by P4Runtime, of one switch; drains: by the job's server, of all its "
            "switches together; default: what the switch allows.",
        ),
    ] = None,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Read cells, sequence windows and the open round of a job out of its switches.

    A sum is told in units of 2^-F, as `value` with F of the job.
    """
    if through is not None and through not in THROUGH:
        raise BadInput(f"--through {through!r}: allowed are {', '.join(THROUGH)}")
    operator = operator_of(controller, tls)
    reply = operator.dump(
        checked(job, "job"),
        checked(row, "row"),
        checked(rows, "rows"),
        windows=windows,
        switch=switch,
        through=through,
    )
    info = operator.describe(job)
    if info.epoch != reply.epoch:
        raise NotNow(
            f"job {job} went from epoch {reply.epoch} to {info.epoch} meanwhile: try again"
        )
    bits = info.spec.fraction_bits
    if as_json:
        print_json(dump_fields(reply, bits))
        return
    open_round = reply.open_round if reply.HasField("open_round") else "none yet"
    typer.echo(
        f"epoch {reply.epoch}, lowest open round {open_round}, F = {bits}, through "
        f"{through_name(reply)}"
    )
    table = Table("row", "lane", "bank", "round", "digits", "value")
    for cell in reply.cells:
        numbers = (cell.row, cell.lane, cell.bank, cell.round, cell.digits_value)
        table.add_row(*map(str, numbers), f"{cell.digits_value * 2.0**-bits:.9g}")
    Console().print(table)
    for window in reply.windows:
        typer.echo(
            f"worker {window.rank}: newest sequence number {window.newest}, {window.places} places"
        )


def through_name(reply: Any) -> str:
    """How the cells of a `DumpReply` were read."""
    return next(name for name, way in THROUGH.items() if way == reply.through)


def dump_fields(reply: Any, bits: int) -> dict[str, Any]:
    """Cells and windows for JSON."""
    return {
        "schema": 1,
        "through": through_name(reply),
        "epoch": reply.epoch,
        "fraction_bits": bits,
        "open_round": reply.open_round if reply.HasField("open_round") else None,
        "cells": [
            {
                "row": cell.row,
                "lane": cell.lane,
                "bank": cell.bank,
                "round": cell.round,
                "digits": cell.digits_value,
                "value": cell.digits_value * 2.0**-bits,
            }
            for cell in reply.cells
        ],
        "windows": [
            {"rank": each.rank, "newest": each.newest, "places": each.places}
            for each in reply.windows
        ],
    }


def probe(
    job_file: Annotated[Path, typer.Argument(help="job.json of `libra job describe --job-file`.")],
    rank: Annotated[
        str, typer.Option(help="Whom to ask as: a rank, or server; on the host of that one.")
    ] = "server",
    as_json: AsJson = False,
) -> None:
    """Ask the switch of a job, by a PROBE from this host, whether it knows the job.

    Exit code 0 if it answers with the layout and epoch of the file, 1 if not.
    """
    job = Job.load(job_file)
    if rank != "server" and not rank.isdecimal():
        raise BadInput(f"rank {rank!r}: a number or server is needed")
    number = SERVER_RANK if rank == "server" else int(rank)
    address = job.server if rank == "server" else job.worker_address(number)
    transport = open_transport(job, address)
    began = time.monotonic()
    try:
        answers = probe_switch(job, number, transport)
    finally:
        transport.close()
    took_s = time.monotonic() - began
    if as_json:
        print_json({"schema": 1, "switch": job.switch, "answers": answers, "seconds": took_s})
    elif answers:
        typer.echo(f"switch {job.switch} knows job {job.job} in epoch {job.epoch}")
    if not answers:
        if not as_json:
            raise LibraError(
                f"switch {job.switch} does not answer: it does not know job {job.job}, or "
                f"{address} is no member of it, or the path is broken"
            )
        raise typer.Exit(1)
