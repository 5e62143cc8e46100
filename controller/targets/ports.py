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
PANEL_PORTS = 64
"""Ports 0…63 of a pipe are wired to the panel (or to the processor, by the board)."""

RECIRCULATION = 68
"""The port of a pipe that leads back into it."""

_NAME = re.compile(r"(\d{1,3})(?:/([0-7]))?")


def pipe_of(port: int) -> int:
    """The pipe that a device port belongs to."""
    return port >> LOCAL_BITS


def recirculation_port(pipe: int) -> int:
    """The device port that leads from `pipe` back into it."""
    return pipe << LOCAL_BITS | RECIRCULATION


def check_front_panel(port: int) -> int:
    """Return a device port that a host can hang at; `BadInput` for any other number."""
    if not 0 <= port <= MAX_PORT:
        raise BadInput(f"device port {port}: allowed are 0 to {MAX_PORT}")
    if (local := port & (1 << LOCAL_BITS) - 1) >= PANEL_PORTS:
        raise BadInput(
            f"device port {port} is port {local} of pipe {pipe_of(port)}: no cable leads there; "
            f"ports 0 to {PANEL_PORTS - 1} of a pipe can be on the front panel"
        )
    return port


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
            check_front_panel(port)
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
