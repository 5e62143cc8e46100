"""Ports of a Tofino: names on the front panel, numbers on the chip.

P4Runtime and the P4 program know *device ports*: 9 bits, the pipe (2) and the port in it (7). The
panel names connectors and their lanes, as `7/2`. Which is which is a matter of the board, so the
map comes from the switch: docs/deploy-tofino.md says how to read it there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host_stack.errors import BadInput
from host_stack.jsonfile import read_json_object

PORT_BITS = 9
LOCAL_BITS = 7
MAX_PORT = (1 << PORT_BITS) - 1
PIPES = 4
"""Pipes of the largest chips."""

_NAME = re.compile(r"(\d{1,3})(?:/([0-7]))?")


def pipe_of(port: int) -> int:
    """The pipe that a device port belongs to."""
    return port >> LOCAL_BITS


def check_device_port(port: int) -> int:
    """Return a number that a device port can have; `BadInput` for any other one."""
    if not 0 <= port <= MAX_PORT:
        raise BadInput(f"device port {port}: allowed are 0 to {MAX_PORT}")
    return port


@dataclass(frozen=True)
class Chip:
    """A kind of chip: how its compiler calls it, and what the ports of each of its pipes are for.

    Attributes:
        name: the target of p4c's back end, and of the binary that it makes.
        arch: the architecture of its programs, as their P4Info has it.
        title: for people.
        panel: ports of a pipe that can be wired to the front panel (or, on some boards, to the
            processor).
        recirculation: the port of a pipe that leads back into it.
    """

    name: str
    arch: str
    title: str
    panel: range
    recirculation: int

    def recirculation_port(self, pipe: int) -> int:
        """The device port that leads from `pipe` back into it."""
        return pipe << LOCAL_BITS | self.recirculation

    def check_front_panel(self, port: int) -> int:
        """Return a device port that a host can hang at; `BadInput` for any other number."""
        if (local := check_device_port(port) & (1 << LOCAL_BITS) - 1) not in self.panel:
            raise BadInput(
                f"device port {port} is port {local} of pipe {pipe_of(port)}: no cable leads "
                f"there; ports {self.panel[0]} to {self.panel[-1]} of a pipe of {self.title} can "
                "be on the front panel"
            )
        return port


TOFINO = Chip("tofino", "tna", "Tofino 1", range(64), 68)
TOFINO2 = Chip("tofino2", "t2na", "Tofino 2", range(8, 72), 6)
"""Ports 0 to 7 of its pipes lead back or to the processor; 6 leads back in every pipe."""

CHIPS = {chip.name: chip for chip in (TOFINO, TOFINO2)}


def chip_with(arch: str) -> Chip:
    """The chip of an architecture; `BadInput` lists those that there are."""
    for chip in CHIPS.values():
        if chip.arch == arch:
            return chip
    known = ", ".join(chip.arch for chip in CHIPS.values())
    raise BadInput(f"architecture {arch!r}: known are {known}")


@dataclass(frozen=True)
class PortMap:
    """Names on a front panel and the device ports behind them.

    Attributes:
        device_ports: by name, `connector/lane`; each device port once.
    """

    device_ports: Mapping[str, int]

    def __post_init__(self) -> None:
        seen: dict[int, str] = {}
        for name, port in self.device_ports.items():
            if canonical(name) != name:
                raise BadInput(f"port name {name!r}: write it as connector/lane, {canonical(name)}")
            if type(port) is not int:
                raise BadInput(f"port {name}: {port!r} is no device port, it must be an integer")
            check_device_port(port)
            if (other := seen.setdefault(port, name)) != name:
                raise BadInput(f"ports {other} and {name} have the same device port {port}")

    @classmethod
    def load(cls, path: Path) -> PortMap:
        """Read a JSON object of names and device ports; `BadInput` says what is wrong with it."""
        return cls(read_json_object(path, "port map"))

    def device_port(self, name: str) -> int:
        """The device port of a panel's port, `7/0` or `7` for short."""
        try:
            return self.device_ports[canonical(name)]
        except KeyError:
            raise BadInput(
                f"port {name} is not on this switch's port map; there are "
                f"{', '.join(self.device_ports) or 'none'}"
            ) from None

    def name_of(self, port: int) -> str:
        """What the panel calls a device port."""
        for name, mapped in self.device_ports.items():
            if mapped == port:
                return name
        raise BadInput(f"device port {port} is not on this switch's port map")


def canonical(name: str) -> str:
    """`connector/lane` of a port's name, in which lane 0 may be left out."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadInput(f"port name {name!r}: it is connector/lane, as in 7/0")
    return f"{int(found[1])}/{found[2] or 0}"
