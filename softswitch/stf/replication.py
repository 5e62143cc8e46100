"""Multicast and cloning as bmv2's command line names them."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.dataplane import DataPlane
from softswitch.stf.entry import Entry, known, number
from softswitch.stf.grammar import StfError


@dataclass
class _Node:
    rid: int
    ports: tuple[int, ...]
    group: int | None = None


class Replication:
    """Groups and sessions of a switch; handles of multicast nodes count from 0 as in bmv2."""

    def __init__(self, switch: DataPlane) -> None:
        self.switch = switch
        self._nodes: dict[int, _Node] = {}
        self._next_node = 0
        self._groups: dict[int, list[int]] = {}
        self._mirrors: dict[int, int] = {}  # session to multicast group

    def entries(self) -> dict[str, Entry]:
        """Return the commands by name."""
        return {
            "mirroring_add": Entry(self._mirroring_add, 2, 2, "SESSION PORT"),
            "mirroring_add_mc": Entry(self._mirroring_add_mc, 2, 2, "SESSION GROUP"),
            "mirroring_delete": Entry(self._mirroring_delete, 1, 1, "SESSION"),
            "mirroring_get": Entry(self._mirroring_get, 1, 1, "SESSION"),
            "mc_mgrp_create": Entry(self._mgrp_create, 1, 1, "GROUP"),
            "mc_mgrp_destroy": Entry(self._mgrp_destroy, 1, 1, "GROUP"),
            "mc_node_create": Entry(self._node_create, 1, 512, "RID PORT…"),
            "mc_node_update": Entry(self._node_update, 1, 512, "HANDLE PORT…"),
            "mc_node_associate": Entry(self._node_associate, 2, 2, "GROUP HANDLE"),
            "mc_node_dissociate": Entry(self._node_dissociate, 2, 2, "GROUP HANDLE"),
            "mc_node_destroy": Entry(self._node_destroy, 1, 1, "HANDLE"),
        }

    def _mirroring_add(self, session: str, port: str) -> None:
        self._mirrors.pop(number(session), None)
        self.switch.clone_session_set(number(session), [(number(port), 0)])

    def _mirroring_add_mc(self, session: str, group: str) -> None:
        self._mirrors[number(session)] = number(group)
        self._refresh(number(group))

    def _mirroring_delete(self, session: str) -> None:
        self._mirrors.pop(number(session), None)
        self.switch.clone_session_delete(number(session))

    def _mirroring_get(self, session: str) -> None:
        if number(session) not in self.switch.clone_sessions():
            raise StfError(f"there is no clone session {session}")

    def _mgrp_create(self, group: str) -> None:
        if number(group) in self._groups:
            raise StfError(f"multicast group {group} is there already")
        self._groups[number(group)] = []
        self._refresh(number(group))

    def _mgrp_destroy(self, group: str) -> None:
        for handle in known("multicast group", self._groups, group):
            self._nodes[handle].group = None
        del self._groups[number(group)]
        self._refresh(number(group))

    def _node_create(self, rid: str, *ports: str) -> None:
        self._nodes[self._next_node] = _Node(number(rid), tuple(sorted(map(number, ports))))
        self._next_node += 1

    def _node_update(self, handle: str, *ports: str) -> None:
        node = known("multicast node", self._nodes, handle)
        node.ports = tuple(sorted(map(number, ports)))
        self._refresh(node.group)

    def _node_associate(self, group: str, handle: str) -> None:
        node = known("multicast node", self._nodes, handle)
        members = known("multicast group", self._groups, group)
        if node.group is not None:
            raise StfError(f"multicast node {handle} is in group {node.group} already")
        node.group = number(group)
        members.append(number(handle))
        self._refresh(node.group)

    def _node_dissociate(self, group: str, handle: str) -> None:
        node = known("multicast node", self._nodes, handle)
        if node.group != number(group):
            raise StfError(f"multicast node {handle} is not in group {group}")
        self._groups[node.group].remove(number(handle))
        node.group = None
        self._refresh(number(group))

    def _node_destroy(self, handle: str) -> None:
        node = known("multicast node", self._nodes, handle)
        if node.group is not None:
            self._node_dissociate(str(node.group), handle)
        del self._nodes[number(handle)]

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
