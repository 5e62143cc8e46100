"""Provision a switch over P4Runtime: pipeline, routes, jobs; and read its counters."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import finsy as fy

from controller.finsy_log import finsy_failures
from controller.laps import Laps, chip_of, update_ports
from controller.steps import StepAlign
from controller.tables import (
    Attachment,
    Entity,
    Forward,
    Group,
    LaneAlign,
    Local,
    Membership,
    Sources,
)
from controller.targets import Program, Target
from controller.tls import ClientTls
from host_stack.errors import LibraError

WRITE_BATCH = 512
"""Updates of one Write: finsy waits ten seconds for its answer, however busy the machine is."""

READY_TIMEOUT_S = 30.0


class ProvisionFailed(LibraError):
    """The switch refused what the controller wrote, or did not answer."""


@asynccontextmanager
async def connected(
    address: str,
    target: Target,
    program: Program,
    *,
    fresh: bool,
    device_id: int = 1,
    tls: ClientTls | None = None,
) -> AsyncIterator[fy.Switch]:
    """A finsy switch at `address`, primary, with the program loaded.

    With `fresh` the pipeline is loaded anew, which empties the switch; without, only if the switch
    runs another one.

    Raises `ProvisionFailed` if the switch does not become ready in time, has another controller as
    its primary, or refuses the pipeline.
    """
    with tempfile.TemporaryDirectory() as folder:
        p4info = Path(folder) / "program.p4info.txtpb"
        p4info.write_text(program.p4info)
        blob = Path(folder) / "device_config"
        blob.write_bytes(target.device_config(program))
        options = fy.SwitchOptions(
            p4info=p4info,
            p4blob=blob,
            p4force=fresh,
            device_id=device_id,
            channel_credentials=None if tls is None else tls.for_finsy(),
        )
        with finsy_failures() as failure:
            try:
                async with asyncio.timeout(READY_TIMEOUT_S) as limit:
                    async with fy.Switch("s1", address, options) as switch:
                        limit.reschedule(None)
                        if not switch.is_primary:
                            raise ProvisionFailed(
                                f"the switch at {address} has another controller (election id "
                                f"{switch.primary_id}): a switch has one, stop the other"
                            )
                        yield switch
            except TimeoutError as error:
                raise ProvisionFailed(
                    f"the switch at {address} was not ready within {READY_TIMEOUT_S:g} s"
                ) from error
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # finsy's own task failed, and took the connection with it.
                raise ProvisionFailed(
                    f"the switch at {address} failed: {failure.reason}"
                ) from error
            except fy.P4ClientError as error:
                raise ProvisionFailed(f"the switch at {address} refused: {error}") from error


async def write(switch: fy.Switch, entities: Iterable[Entity]) -> int:
    """Insert entities in batches; return how many."""
    waiting = iter(entities)
    written = 0
    while batch := list(islice(waiting, WRITE_BATCH)):
        await switch.insert(batch)
        written += len(batch)
    return written


def network_entities(
    p4info: fy.P4Schema, forward: Forward, local: Local, behind_links: Sequence[Attachment] = ()
) -> Iterator[Entity]:
    """What every job shares: routes, addresses by port, the switch itself, copies of DRAINs.

    `behind_links` are the addresses of other switches. What the program needs, its description
    says.
    """
    yield from forward.entries()
    yield from Forward(forward.own_mac, behind_links).entries()
    yield from local.entries()
    yield from Sources(local.address, [*forward.hosts, *behind_links]).entries()
    if chip_of(p4info) is None:
        yield local.session()


def job_entities(p4info: fy.P4Schema, membership: Membership, lanes: int) -> Iterator[Entity]:
    """Look-up tables and members of a job: all but its group, and its own entry.

    Nothing of them takes effect without the latter (`Membership.job_entry`).
    """
    slot, fraction_bits = membership.slot, membership.fraction_bits
    align = StepAlign if StepAlign.has_program(p4info) else LaneAlign
    yield from align(slot, fraction_bits, lanes).entries()
    if (chip := chip_of(p4info)) is not None:
        yield from Laps(chip, membership).entries()
    yield from membership.member_entries()


def group_entities(p4info: fy.P4Schema, group: Group) -> Iterator[Entity]:
    """The group of a job; on a chip with pipes, its rounds are closed in all that have workers.

    A copy to the port that an UPDATE came from is dropped by the program for v1model; here none is
    made.
    """
    if (chip := chip_of(p4info)) is not None:
        server = group.server.port
        ports = {*group.ports, *update_ports(chip, server, group.ports)} - {server}
        group = replace(group, ports=ports)
    yield from group.entries()


async def provision_network(switch: fy.Switch, forward: Forward, local: Local) -> None:
    """Install on an empty switch what every job shares."""
    await write(switch, network_entities(switch.p4info, forward, local))


async def provision_job(switch: fy.Switch, membership: Membership, program: Program) -> None:
    """Install a job; its own entry last, so that no packet counts before all of it stands."""
    membership.check(program.layout)
    await write(switch, job_entities(switch.p4info, membership, program.layout.lanes))
    group = group_entities(switch.p4info, membership.multicast())
    await write(switch, [*group, membership.job_entry()])
