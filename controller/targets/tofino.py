"""Tofino behind its two P4Runtime servers, which take different device configurations.

bf_switchd can be built with PI's P4Runtime server (`tofino-p4rt`); Stratum is a switch operating
system with one of its own (`tofino-stratum`). Neither was driven on a chip by this project: see
docs/deploy-tofino.md for what was tried and what was not.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable

from controller.targets import device_config_pb2 as pb
from controller.targets.base import Capabilities, Program, Target
from controller.targets.ports import TOFINO, TOFINO2, Chip
from controller.targets.tofino_output import TofinoProgram
from host_stack.errors import BadInput
from host_stack.wire import DrainFormat

SLOTS = 4
"""1 << JOB_SLOT_BITS of p4src/libra_tna.p4: the window of every worker takes memory."""

WORKERS = 64
"""1 << RANK_BITS there."""

CAPABILITIES = Capabilities(
    formats=frozenset({DrainFormat.DIGITS}),
    reads_registers=False,  # bf_switchd's server has none, Stratum's none of pairs
    reads_replication=False,
    chains=False,
    emulated=False,
    slots=SLOTS,
    workers=WORKERS,
)
"""What the chip can do behind either server."""


class Tofino(Target):
    """A chip behind a server; the class of the server says what it takes.

    Attributes:
        chip: whose programs it runs.
        suffix: of its name. server: for people.
    """

    capabilities = CAPABILITIES
    suffix: str
    server: str

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.name = f"{chip.name}-{self.suffix}"
        self.description = f"{chip.title} with {self.server}"

    def load(self, program: str) -> TofinoProgram:
        """Read the output of p4c's Tofino back end, in `p4src/build/`."""
        return self.check(TofinoProgram.load(program))

    def check(self, program: TofinoProgram) -> TofinoProgram:
        """Return a program of this chip; `BadInput` for that of another one."""
        if program.chip != self.chip:
            raise BadInput(
                f"program {program.name} is for {program.chip.title}, and target {self.name} is "
                f"{self.chip.title}: `make tofino` compiles one for each"
            )
        return program

    def device_config(self, program: Program) -> bytes:
        """The compiler's output in the server's form."""
        if not isinstance(program, TofinoProgram):
            raise BadInput(
                f"target {self.name} takes programs that p4c's Tofino back end made; "
                f"{program.name} is none: compile one with `make tofino`"
            )
        return self.pack(self.check(program))

    @abstractmethod
    def pack(self, program: TofinoProgram) -> bytes:
        """The compiler's output in the server's form."""

    def check_ports(self, ports: Iterable[int]) -> None:
        """Hosts hang at the front panel."""
        for port in ports:
            self.chip.check_front_panel(port)


class Stratum(Tofino):
    """Stratum for Tofino (stratum_bfrt)."""

    suffix = "stratum"
    server = "Stratum"

    def pack(self, program: TofinoProgram) -> bytes:
        """A serialised `BfPipelineConfig`."""
        config = pb.BfPipelineConfig(
            p4_name=program.p4_name,
            bfruntime_info=program.bfrt_info,
            profiles=[
                pb.BfPipelineConfig.Profile(
                    profile_name=each.name,
                    context=each.context,
                    binary=each.binary,
                    pipe_scope=each.pipes,
                )
                for each in program.profiles
            ],
        )
        return config.SerializeToString(deterministic=True)


class P4rt(Tofino):
    """bf_switchd with PI's P4Runtime server."""

    suffix = "p4rt"
    server = "bf_switchd's P4Runtime server"

    def pack(self, program: TofinoProgram) -> bytes:
        """A serialised `P4DeviceConfig`: chunks, each behind its length (little-endian u32)."""
        if len(program.profiles) != 1:
            names = ", ".join(each.name for each in program.profiles)
            raise BadInput(
                f"program {program.p4_name} has the pipelines {names}: {self.name} takes one alone"
            )
        (profile,) = program.profiles
        chunks = (
            program.p4_name.encode(),
            profile.binary,
            profile.context,
            profile.name.encode(),
            program.bfrt_info,
        )
        data = b"".join(struct.pack("<I", len(chunk)) + chunk for chunk in chunks)
        config = pb.P4DeviceConfig(reassign=True, device_data=data)
        return config.SerializeToString(deterministic=True)


STRATUM = Stratum(TOFINO)
P4RT = P4rt(TOFINO)
STRATUM2 = Stratum(TOFINO2)
P4RT2 = P4rt(TOFINO2)
