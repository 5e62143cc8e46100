"""Commands of bmv2's command line that tests use: replication, counters, registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softswitch.dataplane import DataPlane
from softswitch.program import CounterArray, RegisterArray
from softswitch.stf.grammar import Command, StfError, to_int
from softswitch.stf.names import find


@dataclass
class _Node:
    rid: int
    ports: tuple[int, ...]
    group: int | None = None


@dataclass
class Commands:
    """Runs commands on a switch; handles of multicast nodes count from 0 as in bmv2."""

    switch: DataPlane
    _nodes: dict[int, _Node] = field(default_factory=dict)
    _next_node: int = 0
    _groups: dict[int, list[int]] = field(default_factory=dict)
    _mirrors: dict[int, int] = field(default_factory=dict)  # session to multicast group

    def run(self, command: Command) -> None:
        """Run one command. Raises StfError or another SoftSwitchError."""
        entry = _TABLE[command.name]
        low, high = entry.counts
        if not low <= len(command.args) <= high:
            raise StfError(f"{command.name} takes {entry.usage or 'no arguments'}")
        entry.run(self, *command.args)

    # Replication

    def _mirroring_add(self, session: str, port: str) -> None:
        number = _int(session)
        self._mirrors.pop(number, None)
        self.switch.clone_session_set(number, [(_int(port), 0)])

    def _mirroring_add_mc(self, session: str, group: str) -> None:
        self._mirrors[_int(session)] = _int(group)
        self._refresh(_int(group))

    def _mirroring_delete(self, session: str) -> None:
        self._mirrors.pop(_int(session), None)
        self.switch.clone_session_delete(_int(session))

    def _mirroring_get(self, session: str) -> None:
        if _int(session) not in self.switch.clone_sessions():
            raise StfError(f"there is no clone session {session}")

    def _mgrp_create(self, group: str) -> None:
        if _int(group) in self._groups:
            raise StfError(f"multicast group {group} is there already")
        self._groups[_int(group)] = []
        self._refresh(_int(group))

    def _mgrp_destroy(self, group: str) -> None:
        for handle in _known("multicast group", self._groups, group):
            self._nodes[handle].group = None
        del self._groups[_int(group)]
        self._refresh(_int(group))

    def _node_create(self, rid: str, *ports: str) -> None:
        self._nodes[self._next_node] = _Node(_int(rid), tuple(sorted(map(_int, ports))))
        self._next_node += 1

    def _node_update(self, handle: str, *ports: str) -> None:
        node = _known("multicast node", self._nodes, handle)
        node.ports = tuple(sorted(map(_int, ports)))
        self._refresh(node.group)

    def _node_associate(self, group: str, handle: str) -> None:
        node = _known("multicast node", self._nodes, handle)
        members = _known("multicast group", self._groups, group)
        if node.group is not None:
            raise StfError(f"multicast node {handle} is in group {node.group} already")
        node.group = _int(group)
        members.append(_int(handle))
        self._refresh(node.group)

    def _node_dissociate(self, group: str, handle: str) -> None:
        node = _known("multicast node", self._nodes, handle)
        if node.group != _int(group):
            raise StfError(f"multicast node {handle} is not in group {group}")
        self._groups[node.group].remove(_int(handle))
        node.group = None
        self._refresh(_int(group))

    def _node_destroy(self, handle: str) -> None:
        node = _known("multicast node", self._nodes, handle)
        if node.group is not None:
            self._node_dissociate(str(node.group), handle)
        del self._nodes[_int(handle)]

    def _refresh(self, group: int | None) -> None:
        """Give the switch the replicas of a group, and of the clone sessions that use it."""
        if group is None:
            return
        nodes = [self._nodes[handle] for handle in self._groups.get(group, [])]
        replicas = [(port, node.rid) for node in nodes for port in node.ports]
        if group in self._groups:
            self.switch.mcast_group_set(group, replicas)
        elif group in self.switch.mcast_groups():
            self.switch.mcast_group_delete(group)
        for session, target in self._mirrors.items():
            if target == group:
                self.switch.clone_session_set(session, replicas)

    # Counters and registers

    def _counter(self, name: str) -> CounterArray:
        arrays = self.switch.program.counter_arrays
        return find("counter", name, {n: c for n, c in arrays.items() if not c.is_direct})

    def _counter_read(self, name: str, index: str) -> None:
        self.switch.counter_read(self._counter(name).name, _int(index))

    def _counter_write(self, name: str, index: str, packets: str, octets: str) -> None:
        counter = self._counter(name)
        self.switch.counter_write(counter.name, _int(index), _int(packets), _int(octets))

    def _counter_reset(self, name: str) -> None:
        counter = self._counter(name)
        for index in range(counter.size):
            self.switch.counter_write(counter.name, index, 0, 0)

    def _register(self, name: str) -> RegisterArray:
        return find("register", name, self.switch.program.register_arrays)

    def _register_read(self, name: str, index: str = "0") -> None:
        self.switch.register_read(self._register(name).name, _int(index), 1)

    def _register_write(self, name: str, index: str, value: str) -> None:
        self.switch.register_write(self._register(name).name, _int(index), _int(value))

    def _register_reset(self, name: str) -> None:
        register = self._register(name)
        for index in range(register.size):
            self.switch.register_write(register.name, index, 0)


@dataclass(frozen=True)
class _Entry:
    run: Callable[..., None]
    counts: tuple[int, int]
    usage: str


def _known(kind: str, known: Mapping[int, Any], number: str) -> Any:
    if _int(number) not in known:
        raise StfError(f"there is no {kind} {number}")
    return known[_int(number)]


def _int(text: str) -> int:
    return to_int(text, 0)


_TABLE = {
    "mirroring_add": _Entry(Commands._mirroring_add, (2, 2), "SESSION PORT"),
    "mirroring_add_mc": _Entry(Commands._mirroring_add_mc, (2, 2), "SESSION GROUP"),
    "mirroring_delete": _Entry(Commands._mirroring_delete, (1, 1), "SESSION"),
    "mirroring_get": _Entry(Commands._mirroring_get, (1, 1), "SESSION"),
    "mc_mgrp_create": _Entry(Commands._mgrp_create, (1, 1), "GROUP"),
    "mc_mgrp_destroy": _Entry(Commands._mgrp_destroy, (1, 1), "GROUP"),
    "mc_node_create": _Entry(Commands._node_create, (1, 512), "RID PORT…"),
    "mc_node_update": _Entry(Commands._node_update, (1, 512), "HANDLE PORT…"),
    "mc_node_associate": _Entry(Commands._node_associate, (2, 2), "GROUP HANDLE"),
    "mc_node_dissociate": _Entry(Commands._node_dissociate, (2, 2), "GROUP HANDLE"),
    "mc_node_destroy": _Entry(Commands._node_destroy, (1, 1), "HANDLE"),
    "counter_read": _Entry(Commands._counter_read, (2, 2), "COUNTER INDEX"),
    "counter_write": _Entry(Commands._counter_write, (4, 4), "COUNTER INDEX PACKETS BYTES"),
    "counter_reset": _Entry(Commands._counter_reset, (1, 1), "COUNTER"),
    "register_read": _Entry(Commands._register_read, (1, 2), "REGISTER INDEX"),
    "register_write": _Entry(Commands._register_write, (3, 3), "REGISTER INDEX VALUE"),
    "register_reset": _Entry(Commands._register_reset, (1, 1), "REGISTER"),
}
