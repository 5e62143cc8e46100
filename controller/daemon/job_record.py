"""A job as its controller remembers it: what was asked for, what it was given, its newest epoch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from controller.placing.blocks import Block
from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.job import DEFAULT_TIMEOUTS_S, Job
from host_stack.layout import MAX_EPOCH, MAX_ROUND, Layout
from host_stack.placement import Placement

UNKNOWN_WORKER = "127.255.255.254"
"""Stands in for the workers of a job that has none yet, so that the rest of it can be checked."""


class Placed(StrEnum):
    """What of a job is on its switch."""

    JOB = "job"
    """All: hot gradients are summed there."""
    GROUP = "group"
    """The multicast group of its UPDATEs."""
    NOTHING = "nothing"


@dataclass(frozen=True)
class Taken:
    """The newest epoch that a job took, and what holds in it.

    Attributes:
        epoch: 1…4095; taken for good, whether it was installed or not.
        round: its first round.
        fraction_bits: F.
        version: of the placement.
        installed: all of it stood on the switch (or needed not to).
        detour: its packets go around the switch.
    """

    epoch: int
    round: int
    fraction_bits: int
    version: int
    installed: bool
    detour: bool = False

    def __post_init__(self) -> None:
        whole = (self.epoch, self.round, self.fraction_bits, self.version)
        flags = (self.installed, self.detour)
        if any(type(value) is not int for value in whole) or any(
            type(value) is not bool for value in flags
        ):
            raise BadInput(f"{self}: a number is missing")
        if not (0 < self.epoch <= MAX_EPOCH and 0 <= self.round <= MAX_ROUND):
            raise BadInput(f"epoch {self.epoch}, round {self.round}")
        check_fraction_bits(self.fraction_bits)

    @classmethod
    def from_fields(cls, found: Any) -> Taken:
        """Read what `asdict` made; `BadInput` or TypeError if it did not."""
        return cls(**found)


@dataclass(frozen=True)
class Placing:
    """A placement with its number, and the scale that comes with it."""

    version: int
    fraction_bits: int
    placement: Placement


@dataclass(frozen=True)
class Seat:
    """What a job was given on a switch: a slot and rows."""

    switch: str
    slot: int
    block: Block


@dataclass(frozen=True)
class JobRecord:
    """A job.

    Attributes:
        job: its number.
        fraction_bits: F to begin with.
        num_keys, workers, server, group, scheduler, transport, timeouts_s, key_file: as `Job`
            has them;
            without workers it waits for them.
        switch: the name of the switch that it is on; where others sum too, the last one of a
            drain. placed: what of it.
        slot, block, group_id: what it was given there; `group_id` on all switches.
        chain: what it was given on the switches of other racks, in the order of a drain.
    """

    job: int
    fraction_bits: int
    num_keys: int
    workers: tuple[str, ...]
    server: str
    group: str
    scheduler: tuple[str, int]
    switch: str
    placed: Placed
    slot: int
    block: Block
    group_id: int
    transport: str = "batch"
    timeouts_s: tuple[tuple[str, float], ...] = tuple(DEFAULT_TIMEOUTS_S.items())
    key_file: str = ""
    chain: tuple[Seat, ...] = ()

    @property
    def seats(self) -> tuple[Seat, ...]:
        """What it was given on every switch that sums for it, in the order of a drain."""
        return (*self.chain, Seat(self.switch, self.slot, self.block))

    def seat_on(self, switch: str) -> Seat:
        """What it was given on one of these switches."""
        return next(seat for seat in self.seats if seat.switch == switch)

    def description(self, layout: Layout, switch_ip: str, epoch: int = 1) -> Job:
        """The job as its hosts have to know it.

        Raises:
            BadInput: something of it is outside of what is allowed.
        """
        return Job(
            job=self.job,
            epoch=epoch,
            fraction_bits=self.fraction_bits,
            num_keys=self.num_keys,
            layout=layout,
            workers=self.workers or (UNKNOWN_WORKER,),
            server=self.server,
            switch=switch_ip,
            group=self.group,
            scheduler=self.scheduler,
            transport=self.transport,
            timeouts_s=dict(self.timeouts_s),
            key_file=self.key_file,
        )

    def with_workers(self, workers: tuple[str, ...]) -> JobRecord:
        """The same job with other workers."""
        return replace(self, workers=workers)

    def as_fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_fields(cls, found: Any) -> JobRecord:
        """Read what `as_fields` made; `BadInput`, TypeError or ValueError if it did not."""
        if not isinstance(found, dict):
            raise BadInput("it is no JSON object")
        host, port = found["scheduler"]
        return cls(
            **{
                **found,
                "workers": tuple(found["workers"]),
                "scheduler": (str(host), int(port)),
                "placed": Placed(found["placed"]),
                "block": Block(**found["block"]),
                "chain": tuple(
                    Seat(str(each["switch"]), int(each["slot"]), Block(**each["block"]))
                    for each in found.get("chain", ())
                ),
                "timeouts_s": tuple(
                    (str(name), float(value)) for name, value in found["timeouts_s"]
                ),
            }
        )
