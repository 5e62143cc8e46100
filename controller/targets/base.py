"""What a target is: a kind of switch that the same controller code drives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.wire import DrainFormat


class Program(Protocol):
    """A compiled switch program, for whichever target."""

    @property
    def name(self) -> str:
        """What the controller calls it."""

    @property
    def p4info(self) -> str:
        """P4Info in text form."""

    @property
    def layout(self) -> Layout:
        """What the program says of its sizes."""


@dataclass(frozen=True)
class Capabilities:
    """What a kind of switch can do.

    Attributes:
        formats: in which a drain can answer; digits everywhere, float32 where the switch rounds.
        reads_registers: whether P4Runtime reaches the registers of its programs.
        reads_replication: whether it can read back multicast groups and clone sessions.
        chains: whether a drain can pass on to another switch what is here, to be added to.
        emulated: whether `libra run` can start one.
        slots: jobs that the program tells apart, and one for packets of no known job.
        workers: of a job.
    """

    formats: frozenset[DrainFormat]
    reads_registers: bool
    reads_replication: bool
    chains: bool
    emulated: bool
    slots: int
    workers: int


class Target(ABC):
    """A kind of switch.

    Attributes:
        name: as `--target` takes it.
        description: for people.
        capabilities: what it can do.
    """

    name: str
    description: str
    capabilities: Capabilities

    @abstractmethod
    def load(self, program: str) -> Program:
        """Read a compiled program; `BadInput` if there is none, or not for this target."""

    @abstractmethod
    def device_config(self, program: Program) -> bytes:
        """What SetForwardingPipelineConfig carries; `BadInput` for another target's program."""

    @abstractmethod
    def check_ports(self, ports: Iterable[int]) -> None:
        """Raise `BadInput`, with what is allowed, unless hosts can hang at all of `ports`."""

    def check_job(self, slot: int, workers: int) -> None:
        """Raise `BadInput`, with what is allowed, for a job that does not fit into the tables."""
        allowed = self.capabilities
        if not 0 < slot < allowed.slots:
            raise BadInput(f"job slot {slot}: {self.name} allows 1 to {allowed.slots - 1}")
        if not 0 < workers <= allowed.workers:
            raise BadInput(f"{workers} workers: {self.name} allows 1 to {allowed.workers}")
