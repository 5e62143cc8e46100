"""The inventory: switches, the hosts at their ports, and the links between switches.

A TOML file, docs/controller.md has its fields. Switches may stand alone or form a leaf-spine
network: any two have a path of at most two links.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from controller.tables import NO_PORT, Attachment
from controller.targets import find_target
from controller.targets.ports import PortMap
from controller.tls import ClientTls
from host_stack.errors import BadInput
from host_stack.transport import ipv4

SCHEMA = 1
MAX_BYTES = 4 << 20
MAX_DEVICE_ID = (1 << 64) - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

End = tuple[str, int]
"""A switch and a port of it."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class SwitchSpec:
    """A switch.

    Attributes:
        name: of 1 to 64 letters, digits, `.`, `_` and `-`.
        address: of its P4Runtime server, host:port.
        ip, mac: its own.
        device_id: as its P4Runtime server has it.
        target: `controller.targets`. program: the compiled program that it runs.
        rack: its switches run programs with the same layout; empty for none.
        control: socket of an embedded switch on this machine, by which it tells its queues.
        tls: to its P4Runtime server; None for none.
    """

    name: str
    address: str
    ip: str
    mac: str
    device_id: int = 1
    target: str = "soft"
    program: str = "libra"
    rack: str = ""
    control: Path | None = None
    tls: ClientTls | None = None

    def __post_init__(self) -> None:
        _check_host(self.name, self.ip, self.mac)
        find_target(self.target)
        if self.rack != "":
            _check_name(self.rack, f"{self.name}: rack")
        if not isinstance(self.program, str) or not _NAME.fullmatch(self.program):
            raise BadInput(f"{self.name}: program {self.program!r} is no name of one")
        if type(self.device_id) is not int or not 0 < self.device_id <= MAX_DEVICE_ID:
            raise BadInput(f"{self.name}: device_id {self.device_id!r}: allowed are 1 to 2^64 - 1")
        host, _, port = str(self.address).rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 0xFFFF:
            raise BadInput(f"{self.name}: address {self.address!r}: HOST:PORT is needed")


@dataclass(frozen=True)
class HostSpec:
    """A host and where it hangs."""

    name: str
    ip: str
    mac: str
    switch: str
    port: int

    def __post_init__(self) -> None:
        _check_host(self.name, self.ip, self.mac)
        _check_port(self.name, self.port)


@dataclass(frozen=True)
class LinkSpec:
    """A link between two switches; `ends` are written `SWITCH:PORT`."""

    ends: tuple[str, str]

    def __post_init__(self) -> None:
        if len(self.ends) != 2:
            raise BadInput(f"link {self.ends}: it has two ends, SWITCH:PORT each")
        for end in self.parsed:
            _check_port(f"link {self.ends}", end[1])

    @cached_property
    def parsed(self) -> tuple[End, End]:
        """The ends as (switch, port)."""
        found = []
        for end in self.ends:
            name, _, port = str(end).rpartition(":")
            if not name or not port.isdecimal():
                raise BadInput(f"link {self.ends}: {end!r} is not SWITCH:PORT")
            found.append((name, int(port)))
        return found[0], found[1]


@dataclass(frozen=True)
class Inventory:
    """What a controller owns.

    Attributes:
        switches, hosts, links: as above.
    """

    switches: tuple[SwitchSpec, ...]
    hosts: tuple[HostSpec, ...]
    links: tuple[LinkSpec, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.switches:
            raise BadInput("an inventory has at least one switch")
        everything: list[SwitchSpec | HostSpec] = [*self.switches, *self.hosts]
        _check_distinct("name", (each.name for each in everything))
        _check_distinct("ip", (each.ip for each in everything))
        _check_distinct("address of a switch", (each.address for each in self.switches))
        ends = [(host.switch, host.port) for host in self.hosts]
        ends += [end for link in self.links for end in link.parsed]
        for name, port in ends:
            find_target(self.switch(name).target).check_ports([port])
        _check_distinct("port", (f"{name}:{port}" for name, port in ends))
        for one in self.switches:
            for other in self.switches:
                if one != other:
                    self.port_towards(one.name, other.name)

    def switch(self, name: str) -> SwitchSpec:
        """The switch of a name; `BadInput` lists those that there are."""
        for switch in self.switches:
            if switch.name == name:
                return switch
        known = ", ".join(switch.name for switch in self.switches)
        raise BadInput(f"switch {name!r} is not in the inventory: it has {known}")

    def host_at(self, ip: str) -> HostSpec:
        """The host of an address; `BadInput` if there is none."""
        for host in self.hosts:
            if host.ip == ip:
                return host
        raise BadInput(f"{ip}: no port of a switch is known for it in the inventory")

    def port_towards(self, switch: str, other: str) -> int:
        """The port of a switch on the path to another one; `BadInput` if there is no short one.

        Of several paths both directions take the same: packets of a host then always come by the
        same port, by which a switch knows that its address is not forged.
        """
        if (port := self._neighbours[switch].get(other)) is not None:
            return port
        middles = sorted(set(self._neighbours[switch]) & set(self._neighbours[other]))
        if not middles:
            raise BadInput(
                f"{switch} and {other} have no path of at most two links; a network of switches "
                "is a leaf-spine"
            )
        order = sorted(self._neighbours)
        middle = middles[(order.index(switch) + order.index(other)) % len(middles)]
        return self._neighbours[switch][middle]

    def path(self, switch: str, other: str) -> list[str]:
        """The switches from one to another, both included."""
        found = [switch]
        while found[-1] != other:
            found.append(self._towards(found[-1], other))
        return found

    def attachments(self, switch: str) -> tuple[Attachment, ...]:
        """Every host as a switch sees it: by which port it goes there, and to whom next."""
        return tuple(
            Attachment(host.ip, *self._next_hop(switch, host.switch, host.port, host.mac))
            for host in self.hosts
        )

    def other_switches(self, switch: str) -> tuple[Attachment, ...]:
        """The addresses of the other switches, as this one sees them."""
        return tuple(
            Attachment(other.ip, *self._next_hop(switch, other.name, 0, other.mac))
            for other in self.switches
            if other.name != switch
        )

    def _next_hop(self, switch: str, last: str, port: int, mac: str) -> tuple[str, int]:
        if switch == last:
            return mac, port
        return self.switch(self._towards(switch, last)).mac, self.port_towards(switch, last)

    def _towards(self, switch: str, other: str) -> str:
        port = self.port_towards(switch, other)
        return next(name for name, its in self._neighbours[switch].items() if its == port)

    @cached_property
    def _neighbours(self) -> dict[str, dict[str, int]]:
        """Of each switch, the port at which each other one hangs."""
        found: dict[str, dict[str, int]] = {switch.name: {} for switch in self.switches}
        for link in self.links:
            (one, port), (other, other_port) = link.parsed
            if one == other or other in found[one]:
                raise BadInput(f"link {link.ends}: two different switches have one link at most")
            found[one][other] = port
            found[other][one] = other_port
        return found

    @classmethod
    def load(cls, path: Path) -> Inventory:
        """Read an inventory file; `BadInput` says what is wrong with it."""
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
            if len(text) > MAX_BYTES:
                raise BadInput(f"it has more than {MAX_BYTES} bytes")
            return cls.parse(tomllib.loads(text.decode()), path.parent)
        except (OSError, ValueError, RecursionError, BadInput) as error:
            raise BadInput(f"{path} is not an inventory: {error}") from error

    @classmethod
    def parse(cls, found: dict[str, Any], folder: Path) -> Inventory:
        """Take over what a file holds; paths in it are relative to `folder`."""
        known = {"schema", "switch", "host", "link"}
        if unknown := set(found) - known:
            raise BadInput(f"{', '.join(sorted(unknown))}: known are {', '.join(sorted(known))}")
        if found.get("schema") != SCHEMA:
            raise BadInput(f"schema {found.get('schema')!r}: this version reads {SCHEMA}")
        tables = _tables(found, "switch")
        ports = [_ports(table.pop("ports", {})) for table in tables]
        switches = [_switch(table, folder) for table in tables]
        names = dict(zip((switch.name for switch in switches), ports, strict=True))
        for switch in switches:
            find_target(switch.target).check_ports(names[switch.name].device_ports.values())
        links = [_link(table) for table in _tables(found, "link")]
        hosts = [_host(table, names) for table in _tables(found, "host")]
        return cls(tuple(switches), tuple(hosts), tuple(links))

    def text(self) -> str:
        """The inventory as a file that `load` reads."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"schema = {SCHEMA}\n"
        for switch in self.switches:
            yield "\n[[switch]]\n"
            yield from _assignments(switch)
            if switch.tls is not None:
                yield "[switch.tls]\n"
                yield from _assignments(switch.tls)
        for host in self.hosts:
            yield "\n[[host]]\n"
            yield from _assignments(host)
        for link in self.links:
            yield f'\n[[link]]\nends = ["{link.ends[0]}", "{link.ends[1]}"]\n'


def _assignments(spec: Any) -> Iterator[str]:
    for each in fields(spec):
        value = getattr(spec, each.name)
        if isinstance(value, int):
            yield f"{each.name} = {value}\n"
        elif isinstance(value, str | Path) and str(value):
            text = str(value)
            if any(character in '"\\' or ord(character) < 32 for character in text):
                raise BadInput(f"{each.name} {text!r}: quotes and backslashes are not allowed")
            yield f'{each.name} = "{text}"\n'


def _tables(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tables = found.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise BadInput(f"{name}: it is written [[{name}]]")
    return [dict(each) for each in tables]


def _switch(table: dict[str, Any], folder: Path) -> SwitchSpec:
    tls = table.pop("tls", None)
    if tls is not None:
        if not isinstance(tls, dict):
            raise BadInput("tls: it is written [switch.tls]")
        texts = {name: _text(value, f"[switch.tls] {name}") for name, value in tls.items()}
        files = {name: text if name == "name" else folder / text for name, text in texts.items()}
        table["tls"] = _made(ClientTls, files, "switch.tls")
    if "control" in table:
        table["control"] = folder / _text(table["control"], "control")
    return _made(SwitchSpec, table, "switch")


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise BadInput(f"{what} {value!r}: it is a path or a name, in quotes")
    return value


def _link(table: dict[str, Any]) -> LinkSpec:
    ends = table.get("ends", [])
    if not isinstance(ends, list):
        raise BadInput(f"link: ends {ends!r}: they are a list of two, SWITCH:PORT each")
    return _made(LinkSpec, {**table, "ends": tuple(ends)}, "link")


def _host(table: dict[str, Any], ports: dict[str, PortMap]) -> HostSpec:
    """A host of a file, at a port with a number or with a name on its switch's panel."""
    port, switch = table.get("port"), table.get("switch")
    if isinstance(port, str):
        of_switch = ports.get(switch) if isinstance(switch, str) else None
        table["port"] = (of_switch or PortMap({})).device_port(port)
    return _made(HostSpec, table, "host")


def _made(kind: type[_T], table: dict[str, Any], what: str) -> _T:
    try:
        return kind(**table)
    except TypeError as error:
        names = ", ".join(each.name for each in fields(kind))  # type: ignore[arg-type]
        raise BadInput(
            f"{what} {table.get('name', '')}: its fields are {names} ({error})"
        ) from error


def _ports(found: Any) -> PortMap:
    if not isinstance(found, dict):
        raise BadInput(f"ports {found!r}: they are written [switch.ports]")
    return PortMap(found)


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} {name!r}: allowed are 1 to 64 letters, digits, '.', '_' and '-', a letter or "
            "digit first"
        )


def _check_host(name: Any, ip: Any, mac: Any) -> None:
    _check_name(name, "name")
    if not isinstance(ip, str):
        raise BadInput(f"{name}: ip {ip!r} is no IPv4 address")
    ipv4(ip)
    if not isinstance(mac, str) or not _MAC.fullmatch(mac):
        raise BadInput(f"{name}: mac {mac!r}: six pairs of hex digits, in lower case, are needed")


def _check_port(what: str, port: Any) -> None:
    if type(port) is not int or not 0 <= port < NO_PORT:
        raise BadInput(f"{what}: port {port!r}: allowed are 0 to {NO_PORT - 1}")


def _check_distinct(what: str, values: Iterable[str]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise BadInput(f"{what} {value} is there twice")
        seen.add(value)
