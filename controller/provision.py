"""Provision a switch over P4Runtime: pipeline, routes, jobs; and read its counters."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import finsy as fy

from controller.finsy_log import finsy_failures
from controller.laps import Laps
from controller.pieces import SplitAlign
from controller.tables import Entity, Forward, LaneAlign, Local, Membership, Sources
from controller.targets import Program, Target
from host_stack.errors import LibraError
from host_stack.wire import REASONS_PER_SLOT, Reason

WRITE_BATCH = 2048
"""Updates of one Write: keeps messages under a megabyte."""

READY_TIMEOUT_S = 30.0

_REASONS = {reason.value for reason in Reason}


class ProvisionFailed(LibraError):
    """The switch refused what the controller wrote, or did not answer."""


@asynccontextmanager
async def connected(
    address: str, target: Target, program: Program, *, fresh: bool, device_id: int = 1
) -> AsyncIterator[fy.Switch]:
    """A finsy switch at `address`, primary, with the program loaded.

    With `fresh` the pipeline is loaded anew, which empties the switch; without, only if the switch
    runs another one.

    Raises `ProvisionFailed` if the switch does not become ready in time or refuses the pipeline.
    """
    with tempfile.TemporaryDirectory() as folder:
        p4info = Path(folder) / "program.p4info.txtpb"
        p4info.write_text(program.p4info)
        blob = Path(folder) / "device_config"
        blob.write_bytes(target.device_config(program))
        options = fy.SwitchOptions(p4info=p4info, p4blob=blob, p4force=fresh, device_id=device_id)
        with finsy_failures() as failure:
            try:
                async with asyncio.timeout(READY_TIMEOUT_S) as limit:
                    async with fy.Switch("s1", address, options) as switch:
                        limit.reschedule(None)
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


async def provision_network(switch: fy.Switch, forward: Forward, local: Local) -> None:
    """Install what every job shares: routes, addresses by port, the switch, the clone session."""
    sources = Sources(local.address, forward.hosts)
    await write(switch, [*forward.entries(), *local.entries(), *sources.entries()])
    if not Laps.has_program(switch.p4info):
        await write(switch, [local.session()])
    if split := SplitAlign.of_program(switch.p4info):
        await write(switch, split.shares())


async def provision_job(switch: fy.Switch, membership: Membership, program: Program) -> None:
    """Install a job; members last, so that no packet counts before all of it stands."""
    membership.check(program.layout)
    slot, fraction_bits = membership.slot, membership.fraction_bits
    if split := SplitAlign.of_program(switch.p4info):
        await write(switch, split.exponents(slot, fraction_bits))
    else:
        await write(switch, LaneAlign(slot, fraction_bits, program.layout.lanes).entries())
    if Laps.has_program(switch.p4info):
        await write(switch, Laps(membership).entries())
    await write(switch, [*membership.entries(), *membership.group_entries()])


async def provision_group(switch: fy.Switch, membership: Membership) -> None:
    """Install only the multicast group of a job that stays off the switch."""
    await write(switch, membership.group_entries())


async def read_reasons(switch: fy.Switch, slot: int) -> dict[str, int]:
    """What became of Libra packets, by reason: of the job in `slot` and of no known job."""
    counts = {reason.name.lower(): 0 for reason in Reason}
    counters = switch.read(fy.P4CounterEntry("LibraIngress.reasons"))
    async for entry in counters:  # type: ignore[attr-defined]  # finsy annotates a coroutine
        owner, reason = divmod(entry.index or 0, REASONS_PER_SLOT)
        if owner in {0, slot} and reason in _REASONS:
            counts[Reason(reason).name.lower()] += entry.packet_count
    return counts
