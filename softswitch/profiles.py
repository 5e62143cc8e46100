"""Action profiles: members, groups of members, and who refers to them.

A group is a list of members on the C side, one place per unit of weight, in the order of member
ids; the selector's hash modulo the number of places picks one. Members whose watch port is down
have no place.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from softswitch.actions import action_words
from softswitch.binding import u32_array, u64_array
from softswitch.engine import Handle, Handles
from softswitch.errors import (
    AlreadyExists,
    InUse,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from softswitch.program import ActionProfile, Program, Reference

MAX_GROUP_WEIGHT = 1 << 16
"""Most places of one group."""

FIRST_HIDDEN = 1 << 32
"""Ids from here on are for members and groups that have no name: one-shots and default actions."""

_GROUP_BIT = 1 << 31


@dataclass(frozen=True)
class Member:
    """A member of an action profile: an action with its parameters."""

    action: str
    params: tuple[int, ...]


@dataclass(frozen=True)
class GroupMember:
    """A member of a group. Without a `watch_port`, or while that port is up, it can be picked."""

    member: int
    weight: int = 1
    watch_port: int | None = None


class ProfileStore:
    """One action profile of a running switch. Thread-safe.

    Ids are chosen by the caller. Methods raise NotFound, AlreadyExists, InvalidArgument,
    ResourceExhausted and, for what something refers to, InUse.
    """

    def __init__(self, program: Program, profile: ActionProfile, switch: Handle) -> None:
        self.profile = profile
        self._program = program
        self._switch = switch
        self._positions = {name: i for i, name in enumerate(profile.actions)}
        self._members: dict[int, tuple[Member, int]] = {}
        self._groups: dict[int, tuple[tuple[GroupMember, ...], int]] = {}
        self._member_handles, self._group_handles = Handles(), Handles()
        self._uses: Counter[Reference] = Counter()
        self._memberships: Counter[int] = Counter()
        self._named = 0
        self._hidden = itertools.count(FIRST_HIDDEN)
        self._ports_down: set[int] = set()

    # Members

    def add_member(self, member_id: int, action: str, params: Sequence[int]) -> None:
        """Add a member."""
        with self._switch.lock:
            if member_id in self._members:
                raise AlreadyExists(f"{self._name} has a member {member_id} already")
            if self._named >= self.profile.max_size:
                raise ResourceExhausted(
                    f"{self._name} is full: it holds {self.profile.max_size} members"
                )
            self._put_member(member_id, action, params)
            self._named += 1

    def modify_member(self, member_id: int, action: str, params: Sequence[int]) -> None:
        """Change the action of a member, for everything that refers to it."""
        with self._switch.lock:
            self._member(member_id)
            self._put_member(member_id, action, params)

    def delete_member(self, member_id: int) -> None:
        """Remove a member that no group and no entry refers to."""
        with self._switch.lock:
            _, handle = self._member(member_id)
            if self._uses[Reference(member_id)] or self._memberships[member_id]:
                raise InUse(f"{self._name}: a group or an entry refers to member {member_id}")
            del self._members[member_id]
            self._named -= member_id < FIRST_HIDDEN
            self._member_handles.give_back(handle)

    def add_hidden(self, action: str, params: Sequence[int]) -> Reference:
        """Add a member under an id of the store's own; it does not count as a member."""
        with self._switch.lock:
            member_id = next(self._hidden)
            self._put_member(member_id, action, params)
            return Reference(member_id)

    def member(self, member_id: int) -> Member:
        """Return a member."""
        with self._switch.lock:
            return self._member(member_id)[0]

    def members(self) -> dict[int, Member]:
        """Return the members by id, without hidden ones."""
        with self._switch.lock:
            return {i: member for i, (member, _) in self._members.items() if i < FIRST_HIDDEN}

    # Groups

    def add_group(self, group_id: int, members: Sequence[GroupMember]) -> None:
        """Add a group; it may be empty."""
        with self._switch.lock:
            if self.profile.selector is None:
                raise InvalidArgument(f"{self._name} has no selector: it takes no groups")
            if group_id in self._groups:
                raise AlreadyExists(f"{self._name} has a group {group_id} already")
            self._put_group(group_id, members)

    def modify_group(self, group_id: int, members: Sequence[GroupMember]) -> None:
        """Replace the members of a group, in one step for packets."""
        with self._switch.lock:
            self._group(group_id)
            self._put_group(group_id, members)

    def delete_group(self, group_id: int) -> None:
        """Remove a group that no entry refers to."""
        with self._switch.lock:
            members, handle = self._group(group_id)
            if self._uses[Reference(group_id, is_group=True)]:
                raise InUse(f"{self._name}: an entry refers to group {group_id}")
            ctx, index = self._switch.ctx, self.profile.index
            self._switch.lib.ss_selection_set(ctx, index, handle, 0, u32_array(()), 0)
            del self._groups[group_id]
            self._memberships.subtract(m.member for m in members)
            self._group_handles.give_back(handle)

    def groups(self) -> dict[int, tuple[GroupMember, ...]]:
        """Return the groups by id, without hidden ones."""
        with self._switch.lock:
            return {i: members for i, (members, _) in self._groups.items() if i < FIRST_HIDDEN}

    # One-shots

    def add_one_shot(
        self, actions: Sequence[tuple[str, Sequence[int], int, int | None]]
    ) -> Reference:
        """Add a hidden group with a hidden member per (action, params, weight, watch port)."""
        with self._switch.lock:
            added: list[GroupMember] = []
            try:
                for action, params, weight, watch_port in actions:
                    member_id = self.add_hidden(action, params).id
                    added.append(GroupMember(member_id, weight, watch_port))
                group_id = next(self._hidden)
                self.add_group(group_id, added)
            except Exception:
                for item in added:
                    self.delete_member(item.member)
                raise
            return Reference(group_id, is_group=True)

    def one_shot_size(self, reference: Reference, *, by_member: bool) -> int:
        """Return the size of a hidden group: its members, or the sum of their weights."""
        members, _ = self._group(reference.id)
        return len(members) if by_member else sum(m.weight for m in members)

    def delete_one_shot(self, reference: Reference) -> None:
        """Remove a hidden group and its members."""
        with self._switch.lock:
            members, _ = self._group(reference.id)
            self.delete_group(reference.id)
            for item in members:
                self.delete_member(item.member)

    # Ports

    def set_port_up(self, port: int, up: bool) -> None:
        """Take the members that watch a port out of their groups, or back into them."""
        with self._switch.lock:
            if (port not in self._ports_down) == up:
                return
            (self._ports_down.discard if up else self._ports_down.add)(port)
            for group_id, (members, handle) in self._groups.items():
                if any(m.watch_port == port for m in members):
                    self._fill(group_id, handle, members)

    def watched_ports(self) -> set[int]:
        """Return the ports that members of groups watch."""
        with self._switch.lock:
            return {
                m.watch_port
                for members, _ in self._groups.values()
                for m in members
                if m.watch_port is not None
            }

    # What entries refer to

    def resolve(self, target: Reference) -> int:
        """Return the reference as the C side takes it."""
        if target.is_group:
            return self._group(target.id)[1] | _GROUP_BIT
        return self._member(target.id)[1]

    def acquire(self, target: Reference) -> None:
        """Count an entry that refers to a member or group."""
        self._uses[target] += 1

    def release(self, target: Reference) -> None:
        """Count an entry less."""
        self._uses[target] -= 1
        if not self._uses[target]:
            del self._uses[target]

    # Helpers

    @property
    def _name(self) -> str:
        return f"action profile {self.profile.name!r}"

    def _member(self, member_id: int) -> tuple[Member, int]:
        if member_id not in self._members:
            raise NotFound(f"{self._name} has no member {member_id}")
        return self._members[member_id]

    def _group(self, group_id: int) -> tuple[tuple[GroupMember, ...], int]:
        if group_id not in self._groups:
            raise NotFound(f"{self._name} has no group {group_id}")
        return self._groups[group_id]

    def _put_member(self, member_id: int, action: str, params: Sequence[int]) -> None:
        actions = self.profile.actions
        data = u64_array(action_words(self._name, actions, self._program, action, params))
        old = self._members.get(member_id)
        handle = self._member_handles.take() if old is None else old[1]
        ctx, number = self._switch.ctx, self._positions[action]
        if self._switch.lib.ss_member_set(ctx, self.profile.index, handle, number, data) != 0:
            self._member_handles.give_back(handle)
            raise ResourceExhausted(f"no memory for another member of {self._name}")
        self._members[member_id] = Member(action, tuple(params)), handle

    def _put_group(self, group_id: int, members: Sequence[GroupMember]) -> None:
        self._check_group(group_id, members)
        old = self._groups.get(group_id)
        handle = self._group_handles.take() if old is None else old[1]
        try:
            self._fill(group_id, handle, members)
        except ResourceExhausted:
            if old is None:
                self._group_handles.give_back(handle)
            raise
        self._groups[group_id] = tuple(members), handle
        self._memberships.update(m.member for m in members)
        self._memberships.subtract(m.member for m in (old[0] if old else ()))

    def _check_group(self, group_id: int, members: Sequence[GroupMember]) -> None:
        ids = [m.member for m in members]
        for member_id in ids:
            self._member(member_id)
        if len(set(ids)) != len(ids):
            raise InvalidArgument(f"{self._name}, group {group_id}: a member is given twice")
        if any(m.weight < 1 for m in members):
            raise InvalidArgument(f"{self._name}, group {group_id}: weights are 1 or more")
        weight = sum(m.weight for m in members)
        if weight > MAX_GROUP_WEIGHT:
            raise ResourceExhausted(
                f"{self._name}, group {group_id}: the weights add up to {weight}, allowed are "
                f"{MAX_GROUP_WEIGHT}"
            )

    def _fill(self, group_id: int, handle: int, members: Sequence[GroupMember]) -> None:
        places: list[int] = []
        for m in sorted(members, key=lambda m: m.member):
            if m.watch_port is None or m.watch_port not in self._ports_down:
                places += [self._members[m.member][1]] * m.weight
        ctx, index, data = self._switch.ctx, self.profile.index, u32_array(places)
        if self._switch.lib.ss_selection_set(ctx, index, handle, 1, data, len(places)) != 0:
            raise ResourceExhausted(f"no memory for group {group_id} of {self._name}")
