"""Counters of a switch, read over P4Runtime; and the limit of how many probes it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

import finsy as fy

from host_stack.wire import REASONS_PER_SLOT, Reason

PROBES_PER_S = 50
PROBE_BURST = 100
"""Of each port. A process of a job probes a few times when it starts."""

_REASONS = {reason.value for reason in Reason}
_MEMBERS = "LibraIngress.membership.members"
_FROM_MEMBERS = "LibraIngress.membership.from_members"
_FOREIGN_AT = "LibraIngress.foreign_at"
_PROBES_AT = "LibraIngress.probes_at"


@dataclass(frozen=True)
class MemberCount:
    """Packets of a member of a job at a switch: GRADs, DRAINs, UPDATEs and PROBEs."""

    job: int
    worker: int
    port: int
    address: str
    packets: int


async def read_all_reasons(switch: fy.Switch) -> dict[tuple[int, str], int]:
    """What became of Libra packets since the program was loaded: by (job slot, reason).

    Slot 0 is that of no known job.
    """
    counts: dict[tuple[int, str], int] = {}
    async for entry in _read(switch, fy.P4CounterEntry("LibraIngress.reasons")):
        slot, reason = divmod(entry.index or 0, REASONS_PER_SLOT)
        if reason in _REASONS:
            counts[slot, Reason(reason).name.lower()] = entry.packet_count
    return counts


async def read_reasons(switch: fy.Switch, slot: int) -> dict[str, int]:
    """What became of Libra packets, by reason: of the job in `slot` and of no known job."""
    counts = {reason.name.lower(): 0 for reason in Reason}
    for (owner, reason), packets in (await read_all_reasons(switch)).items():
        if owner in {0, slot}:
            counts[reason] += packets
    return counts


async def read_members(switch: fy.Switch) -> list[MemberCount]:
    """What came from each member of each job; none if the program does not count it."""
    if not any(each.name == _FROM_MEMBERS for each in switch.p4info.direct_counters):
        return []
    found = []
    async for entry in _read(switch, fy.P4DirectCounterEntry(_FROM_MEMBERS)):
        match = entry.table_entry.match
        address = str(IPv4Address(int(match["src"])))
        port, packets = int(match["ingress_port"]), entry.data.packet_count
        found.append(MemberCount(int(match["job"]), int(match["worker"]), port, address, packets))
    return found


async def read_foreign(switch: fy.Switch) -> dict[int, int]:
    """Foreign packets by the port at which they came in; empty if the program does not count."""
    if not any(each.name == _FOREIGN_AT for each in switch.p4info.counters):
        return {}
    entries = _read(switch, fy.P4CounterEntry(_FOREIGN_AT))
    return {entry.index or 0: entry.packet_count async for entry in entries if entry.packet_count}


async def limit_probes(
    switch: fy.Switch, ports: Iterable[int], per_s: int = PROBES_PER_S, burst: int = PROBE_BURST
) -> int:
    """Limit the probes of each of `ports` that are answered, as far as that is missing.

    Returns:
        How many meters were written; 0 if the program has none.
    """
    if not any(each.name == _PROBES_AT for each in switch.p4info.meters):
        return 0
    wanted = fy.P4MeterConfig(cir=per_s, cburst=burst, pir=per_s, pburst=burst)
    have = {entry.index: entry.config async for entry in _read(switch, fy.P4MeterEntry(_PROBES_AT))}
    missing = [port for port in sorted(set(ports)) if have.get(port) != wanted]
    await switch.modify(
        [fy.P4MeterEntry(_PROBES_AT, index=port, config=wanted) for port in missing]
    )
    return len(missing)


def _read(switch: fy.Switch, entity: Any) -> Any:
    """Entities of a switch; finsy annotates a coroutine where an iterator is."""
    return switch.read(entity)
