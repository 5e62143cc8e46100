"""Members and groups of action profiles, and table entries that refer to them.

The specification's section "ActionProfileMember & ActionProfileGroup". Groups and one-shots are
kept as the controller wrote them, to be read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4r

from softswitch.dataplane import DataPlane, GroupMember, Reference
from softswitch.p4runtime import values
from softswitch.p4runtime.errors import exhausted, invalid, not_found, unimplemented
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_profiles import ProfileInfo
from softswitch.p4runtime.translate import action_to_wire, named, params_from_wire
from softswitch.ports import MAX_PORT
from softswitch.profiles import ProfileStore


@dataclass(frozen=True)
class Use:
    """What an entry refers to, and whether it was given as a one-shot."""

    target: Reference
    one_shot: bool


class ActionProfiles:
    """The action profiles of one pipeline. The caller holds the device's lock."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._groups: dict[int, dict[int, p4r.ActionProfileGroup]] = {
            info.id: {} for info in schema.profiles.values()
        }
        self._weights: Counter[int] = Counter()
        self._one_shots: Counter[int] = Counter()
        self._by_id: Counter[int] = Counter()

    # Members

    def write_member(self, kind: int, message: p4r.ActionProfileMember) -> None:
        """Insert, modify or delete a member; `kind` is a p4r.Update.Type."""
        info = self._schema.profile(message.action_profile_id)
        store, member_id = self._store(info), message.member_id
        if not member_id:
            raise invalid(f"action profile {info.name}: member_id must not be 0 in a write")
        if kind == p4r.Update.DELETE:
            store.delete_member(member_id)
            return
        if kind == p4r.Update.MODIFY:
            store.member(member_id)  # NOT_FOUND comes before what is wrong with the action
        if not message.HasField("action"):
            raise invalid(f"action profile {info.name}: a member needs an action")
        name, params = _action(info, message.action)
        if kind == p4r.Update.INSERT:
            store.add_member(member_id, name, params)
        else:
            store.modify_member(member_id, name, params)

    def read_members(self, query: p4r.ActionProfileMember) -> Iterator[p4r.Entity]:
        """Return the members that `query` selects; ids of 0 select all."""
        found = [
            (info, member_id, member)
            for info in self._selected(query.action_profile_id, query.member_id)
            for member_id, member in self._store(info).members().items()
            if query.member_id in (0, member_id)
        ]
        return (
            p4r.Entity(
                action_profile_member=p4r.ActionProfileMember(
                    action_profile_id=info.id,
                    member_id=member_id,
                    action=_action_to_wire(info, member.action, member.params),
                )
            )
            for info, member_id, member in found
        )

    # Groups

    def write_group(self, kind: int, message: p4r.ActionProfileGroup) -> None:
        """Insert, modify or delete a group; `kind` is a p4r.Update.Type."""
        info = self._schema.profile(message.action_profile_id)
        store, group_id, groups = self._store(info), message.group_id, self._groups[info.id]
        if not info.with_selector:
            raise invalid(f"action profile {info.name} has no selector: it takes no groups")
        if not group_id:
            raise invalid(f"action profile {info.name}: group_id must not be 0 in a write")
        old = groups.get(group_id)
        if kind == p4r.Update.DELETE:
            store.delete_group(group_id)
            self._weights[info.id] -= _size(info, groups.pop(group_id).members)
            return
        if kind == p4r.Update.MODIFY and old is None:
            raise not_found(f"action profile {info.name} has no group {group_id}")
        members = [
            GroupMember(item.member_id, _weight(info, item.weight), _watch_port(info, item))
            for item in message.members
        ]
        before = 0 if old is None else _size(info, old.members)
        _check_max_size(info, message, old)
        size = _size(info, message.members)
        self._check_size(info, size - before)
        if kind == p4r.Update.INSERT:
            store.add_group(group_id, members)
        else:
            store.modify_group(group_id, members)
        groups[group_id] = _canonical(message)
        self._weights[info.id] += size - before

    def read_groups(self, query: p4r.ActionProfileGroup) -> Iterator[p4r.Entity]:
        """Return the groups that `query` selects; ids of 0 select all."""
        found = [
            group
            for info in self._selected(query.action_profile_id, query.group_id)
            for group_id, group in self._groups[info.id].items()
            if query.group_id in (0, group_id)
        ]
        return (p4r.Entity(action_profile_group=group) for group in found)

    # Table entries

    def target(
        self, info: ProfileInfo, action: p4r.TableAction, replaced: Use | None = None
    ) -> Reference:
        """Return what an entry refers to; `release` it when the entry does not any more.

        Of a one-shot the members and the group are made here. `replaced` is what the entry refers
        to until now: it will be released, and neither takes room nor counts as another way.
        """
        kind = action.WhichOneof("type")
        if kind == "action_profile_action_set":
            return self._one_shot(info, action.action_profile_action_set, replaced)
        if kind not in ("action_profile_member_id", "action_profile_group_id"):
            raise invalid(
                f"the action is given as {kind or 'nothing'}; a table with action profile "
                f"{info.name} takes a member or group id, or an action set"
            )
        target_id = getattr(action, kind)
        is_group = kind == "action_profile_group_id"
        if not is_group:
            self._store(info).member(target_id)
        elif target_id not in self._groups[info.id]:
            raise not_found(f"action profile {info.name} has no group {target_id}")
        if self._one_shots[info.id] - (replaced is not None and replaced.one_shot):
            raise invalid(f"action profile {info.name}: other entries are one-shots, {_ONE_WAY}")
        self._by_id[info.id] += 1
        return Reference(target_id, is_group)

    def release(self, info: ProfileInfo, use: Use) -> None:
        """Forget what an entry referred to; the members and the group of a one-shot go."""
        if not use.one_shot:
            self._by_id[info.id] -= 1
            return
        self._weights[info.id] -= self._room_of(info, use)
        self._store(info).delete_one_shot(use.target)
        self._one_shots[info.id] -= 1

    def _room_of(self, info: ProfileInfo, use: Use | None) -> int:
        if use is None or not use.one_shot:
            return 0
        return self._store(info).one_shot_size(use.target, by_member=info.sum_of_members)

    def _one_shot(
        self, info: ProfileInfo, message: p4r.ActionProfileActionSet, replaced: Use | None
    ) -> Reference:
        items = message.action_profile_actions
        _check_modes(info, message)
        if not info.with_selector:
            raise invalid(f"action profile {info.name} has no selector: it takes no action sets")
        if self._by_id[info.id] - (replaced is not None and not replaced.one_shot):
            raise invalid(f"action profile {info.name}: other entries use ids, {_ONE_WAY}")
        parts = [
            (*_action(info, item.action), _weight(info, item.weight), _watch_port(info, item))
            for item in items
        ]
        size = _size(info, items)
        if info.max_group_size and size > info.max_group_size:
            raise invalid(
                f"action profile {info.name}: an action set of size {size}, allowed are "
                f"{info.max_group_size}"
            )
        self._check_size(info, size - self._room_of(info, replaced))
        target = self._store(info).add_one_shot(parts)
        self._one_shots[info.id] += 1
        self._weights[info.id] += size
        return target

    # Helpers

    def _store(self, info: ProfileInfo) -> ProfileStore:
        return self._dataplane.profiles[info.name]

    def _selected(self, profile_id: int, object_id: int) -> Iterable[ProfileInfo]:
        if profile_id:
            return [self._schema.profile(profile_id)]
        if object_id:
            raise invalid(
                "action_profile_id is 0 (all action profiles); no other id can go with it"
            )
        return self._schema.profiles.values()

    def _check_size(self, info: ProfileInfo, more: int) -> None:
        total = self._weights[info.id] + more
        if info.size and more > 0 and total > info.size:
            what = "members" if info.sum_of_members else "weights"
            raise exhausted(
                f"action profile {info.name}: the {what} of all groups add up to {total}, allowed "
                f"are {info.size}"
            )


_ONE_WAY = "and one profile is programmed in one way only"


def target_to_wire(target: Reference) -> p4r.TableAction:
    """Return the message of a reference to a member or group with an id."""
    if target.is_group:
        return p4r.TableAction(action_profile_group_id=target.id)
    return p4r.TableAction(action_profile_member_id=target.id)


def one_shot_to_wire(message: p4r.ActionProfileActionSet) -> p4r.TableAction:
    """Return an action set as it is read back: as written, with canonical byte strings."""
    result = p4r.TableAction(action_profile_action_set=message)
    for item in result.action_profile_action_set.action_profile_actions:
        for param in item.action.params:
            param.value = values.encode(int.from_bytes(param.value, "big"))
        _shorten_port(item)
    return result


def _check_modes(info: ProfileInfo, message: p4r.ActionProfileActionSet) -> None:
    """Raise P4RuntimeError unless an action set asks for what its selector does anyway."""
    modes, sizes = p4r.ActionProfileActionSet.HASH, p4r.ActionProfileActionSet.SUM_OF_WEIGHTS
    if message.action_selection_mode not in (0, modes):
        raise unimplemented(f"action profile {info.name} selects by its hash only")
    own = p4r.ActionProfileActionSet.SUM_OF_MEMBERS if info.sum_of_members else sizes
    if message.size_semantics not in (0, own):
        raise unimplemented(f"action profile {info.name} measures groups in one way only")


def _action(info: ProfileInfo, message: p4r.Action) -> tuple[str, tuple[int, ...]]:
    action = info.actions.get(message.action_id)
    if action is None:
        raise invalid(
            f"action profile {info.name}: no action has id {message.action_id:#010x}; "
            f"{named(info.actions.values())}"
        )
    return action.name, params_from_wire(action, message.params)


def _action_to_wire(info: ProfileInfo, name: str, params: Iterable[int]) -> p4r.Action:
    return action_to_wire(info.actions[info.action_id(name)], params).action


def _weight(info: ProfileInfo, weight: int) -> int:
    if info.weights_disallowed:
        if weight:
            raise invalid(f"action profile {info.name} takes no weights; leave weight unset")
        return 1
    limit = info.max_member_weight or (1 << 31) - 1
    if not 1 <= weight <= limit:
        raise invalid(f"action profile {info.name}: weight {weight}, allowed are 1 to {limit}")
    return weight


def _size(info: ProfileInfo, items: Any) -> int:
    if info.sum_of_members:
        return len(items)
    return sum(max(item.weight, 1) for item in items)


def _watch_port(info: ProfileInfo, item: Any) -> int | None:
    kind = item.WhichOneof("watch_kind")
    if kind is None or (kind == "watch_port" and not item.watch_port):
        return None
    what = f"watch port of action profile {info.name}"
    port: int = values.decode(item.watch_port, 32, what) if kind == "watch_port" else item.watch
    if not 0 <= port <= MAX_PORT:
        raise invalid(f"{what}: port {port} does not exist; ports are 0 to {MAX_PORT}")
    return port


def _check_max_size(
    info: ProfileInfo, message: p4r.ActionProfileGroup, old: p4r.ActionProfileGroup | None
) -> None:
    where = f"action profile {info.name}, group {message.group_id}"
    if old is not None and message.max_size != old.max_size:
        raise invalid(f"{where}: max_size is {old.max_size} and cannot become {message.max_size}")
    if message.max_size < 0 or (info.max_group_size and not message.max_size):
        raise invalid(
            f"{where}: max_size {message.max_size}, allowed are 1 to {info.max_group_size}"
        )
    if info.max_group_size and message.max_size > info.max_group_size:
        raise invalid(f"{where}: max_size {message.max_size}, allowed are {info.max_group_size}")
    size = _size(info, message.members)
    if message.max_size and size > message.max_size:
        raise exhausted(f"{where}: its size is {size}, its max_size {message.max_size}")


def _canonical(message: p4r.ActionProfileGroup) -> p4r.ActionProfileGroup:
    copy = p4r.ActionProfileGroup()
    copy.CopyFrom(message)
    for item in copy.members:
        _shorten_port(item)
    return copy


def _shorten_port(item: Any) -> None:
    if item.WhichOneof("watch_kind") == "watch_port" and item.watch_port:
        item.watch_port = values.encode(int.from_bytes(item.watch_port, "big"))
