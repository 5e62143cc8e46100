"""A Tofino with hosts in three pipes: its inventory, and what is on it, decoded by its P4Info."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, TypeAlias

from finsy.proto import p4i, p4r

from controller.jobapi.channel import ControllerAddress
from controller.targets.ports import CHIPS, TOFINO, Chip
from softswitch.p4runtime.values import encode
from tests.controller_process import ControllerProcess, star
from tests.p4rt_support import Client
from tests.tofino_output import read_p4info, write_compiled

LANES = 16
SERVER = "127.0.1.1"
SERVER_PORT = 60
HOSTS = {
    SERVER: SERVER_PORT,
    "127.0.1.2": 136,
    "127.0.1.3": 144,
    "127.0.1.4": 268,
    "127.0.1.5": 12,
}
"""The server in pipe 0, workers in pipes 1, 1, 2 and 0; either chip has a cable at these ports."""

Entries: TypeAlias = dict[tuple[Any, ...], tuple[str, dict[str, int]]]
"""By match (a number, or value and length of a prefix): action and parameters."""


@dataclass
class Held:
    """What a switch holds, the program's own entries apart.

    Attributes:
        tables: by name.
        groups: (port, instance) of each copy, by number.
    """

    tables: dict[str, Entries] = field(default_factory=dict)
    groups: dict[int, set[tuple[int, int]]] = field(default_factory=dict)


def number(address: str) -> int:
    """Of an IPv4 address."""
    return int(IPv4Address(address))


def chip_of(target: str) -> Chip:
    """The chip of a target, by its name."""
    return CHIPS[target.partition("-")[0]]


def read_held(address: str, chip: Chip = TOFINO) -> Held:
    """Read a switch, as a client that knows nothing of Libra."""
    decoder = Decoder(read_p4info(chip))
    with Client(address) as client:
        entities = client.read(
            p4r.Entity(table_entry=p4r.TableEntry()),
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
        )
    held = Held()
    for entity in entities:
        if entity.HasField("packet_replication_engine_entry"):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            copies = {(replica.egress_port, replica.instance) for replica in group.replicas}
            held.groups[group.multicast_group_id] = copies
        elif not entity.table_entry.is_const:
            table, match, action = decoder.entry(entity.table_entry)
            held.tables.setdefault(table, {})[match] = action
    return held


class Decoder:
    """Turns ids and byte strings into names and numbers."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = {table.preamble.id: table for table in p4info.tables}
        self._actions = {action.preamble.id: action for action in p4info.actions}

    def entry(
        self, entry: p4r.TableEntry
    ) -> tuple[str, tuple[Any, ...], tuple[str, dict[str, int]]]:
        """Table, match in the order of its fields, and action of an entry."""
        table = self._tables[entry.table_id]
        fields = {match.field_id: match for match in entry.match}
        match = tuple(self._value(fields[each.id]) for each in table.match_fields)
        action = self._actions[entry.action.action.action_id]
        names = {param.id: param.name for param in action.params}
        params = {
            names[param.param_id]: int.from_bytes(param.value, "big")
            for param in entry.action.action.params
        }
        return table.preamble.name, match, (action.preamble.name, params)

    @staticmethod
    def _value(match: p4r.FieldMatch) -> Any:
        if match.HasField("lpm"):
            return int.from_bytes(match.lpm.value, "big"), match.lpm.prefix_len
        return int.from_bytes(match.exact.value, "big")


def write_lab(folder: Path, target: str, address: str) -> None:
    """The inventory of the switch, and the output of its compiler."""
    chip = chip_of(target)
    inventory = star(address, HOSTS, target=target, program=chip.name)
    (folder / "inventory.toml").write_text(inventory.text())
    write_compiled(folder / "build", chip)


@contextmanager
def tofino_controller(folder: Path, path: Path) -> Iterator[ControllerProcess]:
    """A controller of what `write_lab` wrote, at a socket; killed at the end of the block."""
    files = (str(folder / "build"), str(folder / "inventory.toml"), str(folder / "state.sqlite"))
    process = ControllerProcess(
        ControllerAddress.at_socket(path), "tests.tofino_daemon", *files, "--listen", f"unix:{path}"
    )
    try:
        yield process
    finally:
        process.kill()


def entry(
    table: str,
    match: tuple[Any, ...],
    action: str,
    params: tuple[int, ...],
    chip: Chip = TOFINO,
) -> p4r.Entity:
    """An entry of exact matches (numbers) or prefixes (value, length), by names."""
    p4info = read_p4info(chip)
    (its,) = (each for each in p4info.tables if each.preamble.name == table)
    (does,) = (each for each in p4info.actions if each.preamble.name == action)
    made = p4r.TableEntry(table_id=its.preamble.id)
    for key, value in zip(its.match_fields, match, strict=True):
        if key.match_type == p4i.MatchField.LPM:
            prefix = p4r.FieldMatch.LPM(value=encode(value[0]), prefix_len=value[1])
            made.match.add(field_id=key.id, lpm=prefix)
        else:
            made.match.add(field_id=key.id, exact=p4r.FieldMatch.Exact(value=encode(value)))
    made.action.action.action_id = does.preamble.id
    for param, value in zip(does.params, params, strict=True):
        made.action.action.params.add(param_id=param.id, value=encode(value))
    return p4r.Entity(table_entry=made)


def update(kind: str, entity: p4r.Entity) -> p4r.Update:
    """INSERT, MODIFY or DELETE."""
    return p4r.Update(type=p4r.Update.Type.Value(kind), entity=entity)
