"""Action profiles and the tables that use them, as bmv2's command line names them."""

from __future__ import annotations

from softswitch.dataplane import DataPlane
from softswitch.errors import NotFound
from softswitch.profiles import GroupMember, ProfileStore
from softswitch.program import MatchKey, Reference, TableEntry
from softswitch.stf.entry import Entry, number
from softswitch.stf.grammar import MatchField, StfError
from softswitch.stf.names import find, key_of

_MANY = 512


class Profiles:
    """Members and groups of a switch; their handles count from 0 per profile, as in bmv2."""

    def __init__(self, switch: DataPlane) -> None:
        self.switch = switch
        self._next_member: dict[str, int] = {}
        self._next_group: dict[str, int] = {}

    def entries(self) -> dict[str, Entry]:
        """Return the commands by name."""
        pair = "PROFILE MEMBER GROUP"
        key = "TABLE KEY… => HANDLE [PRIORITY]"
        return {
            "act_prof_create_member": Entry(
                self._create_member, 2, _MANY, "PROFILE ACTION PARAMETER…"
            ),
            "act_prof_modify_member": Entry(
                self._modify_member, 3, _MANY, "PROFILE ACTION MEMBER PARAMETER…"
            ),
            "act_prof_delete_member": Entry(self._delete_member, 2, 2, "PROFILE MEMBER"),
            "act_prof_create_group": Entry(self._create_group, 1, 1, "PROFILE"),
            "act_prof_delete_group": Entry(self._delete_group, 2, 2, "PROFILE GROUP"),
            "act_prof_add_member_to_group": Entry(self._join, 3, 3, pair),
            "act_prof_remove_member_from_group": Entry(self._leave, 3, 3, pair),
            "table_indirect_add": Entry(self._add, 3, _MANY, key),
            "table_indirect_add_with_group": Entry(self._add_with_group, 3, _MANY, key),
        }

    def _profile(self, name: str) -> ProfileStore:
        return find("action profile", name, self.switch.profiles)

    def _create_member(self, name: str, action: str, *params: str) -> None:
        profile = self._profile(name)
        member = self._next_member.get(profile.profile.name, 0)
        profile.add_member(member, *self._call(profile, action, params))
        self._next_member[profile.profile.name] = member + 1

    def _modify_member(self, name: str, action: str, member: str, *params: str) -> None:
        profile = self._profile(name)
        profile.modify_member(number(member), *self._call(profile, action, params))

    def _call(
        self, profile: ProfileStore, action: str, params: tuple[str, ...]
    ) -> tuple[str, tuple[int, ...]]:
        index = find("action", action, profile.profile.actions)
        return self.switch.program.actions[index].name, tuple(number(word) for word in params)

    def _delete_member(self, name: str, member: str) -> None:
        self._profile(name).delete_member(number(member))

    def _create_group(self, name: str) -> None:
        profile = self._profile(name)
        group = self._next_group.get(profile.profile.name, 0)
        profile.add_group(group, [])
        self._next_group[profile.profile.name] = group + 1

    def _delete_group(self, name: str, group: str) -> None:
        self._profile(name).delete_group(number(group))

    def _join(self, name: str, member: str, group: str) -> None:
        profile, members = self._members(name, group)
        profile.modify_group(number(group), [*members, GroupMember(number(member))])

    def _leave(self, name: str, member: str, group: str) -> None:
        profile, members = self._members(name, group)
        left = [m for m in members if m.member != number(member)]
        if len(left) == len(members):
            raise StfError(f"group {group} has no member {member}")
        profile.modify_group(number(group), left)

    def _members(self, name: str, group: str) -> tuple[ProfileStore, tuple[GroupMember, ...]]:
        profile = self._profile(name)
        members = profile.groups().get(number(group))
        if members is None:
            raise NotFound(f"action profile {profile.profile.name!r} has no group {group}")
        return profile, members

    def _add(self, table: str, *words: str) -> None:
        self._add_entry(table, words, is_group=False)

    def _add_with_group(self, table: str, *words: str) -> None:
        self._add_entry(table, words, is_group=True)

    def _add_entry(self, name: str, words: tuple[str, ...], *, is_group: bool) -> None:
        table = find("table", name, self.switch.program.tables)
        count = len(table.keys)
        wanted = count + (3 if table.uses_priority else 2)
        if len(words) != wanted or words[count] != "=>":
            raise StfError(f"table {table.name!r} takes {count} key fields, => and a handle")
        fields = tuple(_field(key.name, word) for key, word in zip(table.keys, words, strict=False))
        key: tuple[MatchKey, ...] = key_of(table, fields)
        # On bmv2's command line the lower number wins.
        priority = (1 << 30) - number(words[-1]) if table.uses_priority else 0
        target = Reference(number(words[count + 1]), is_group)
        self.switch.table_add(table.name, TableEntry(key, priority, target=target))


def _field(name: str, word: str) -> MatchField:
    for mark, joint in (("&&&", "&&&"), ("->", ".."), ("/", "/")):
        first, found, second = word.partition(mark)
        if found:
            return MatchField(name, first, joint, second)
    return MatchField(name, word)
