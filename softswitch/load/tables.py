"""Tables with their default and constant entries."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.load.names import Names
from softswitch.load.reader import Reader, hex_value, text_pair
from softswitch.program import Action, KeyField, MatchKey, MatchType, Table, TableEntry

MAX_KEY_BITS = 4096
MAX_TABLE_SIZE = 1 << 24


class TableReader:
    """Reads tables; `actions` by id in the JSON file, `profiles` are the names there are."""

    def __init__(
        self, names: Names, actions: dict[int, Action], profiles: Container[str] = ()
    ) -> None:
        self.names = names
        self.actions = actions
        self.profiles = profiles

    def read(self, reader: Reader, index: int) -> Table:
        """Read one entry of a pipeline's tables."""
        name = reader.text("name")
        where = f"table {name!r}"
        profile = self._profile(reader, where)
        keys = tuple(self._key(r) for r in reader.objects("key"))
        if sum(k.width for k in keys) > MAX_KEY_BITS:
            raise UnsupportedConstruct(f"key of more than {MAX_KEY_BITS} bits", where)
        match_type = _table_match_type(keys, where)
        actions = self._table_actions(reader, where)
        default_action: str | None = None
        default_params: tuple[int, ...] = ()
        const_action = const_params = False
        if reader.has("default_entry"):
            default = reader.child("default_entry")
            default_action, default_params = self._action_entry(default, where)
            const_action = default.flag("action_const", False)
            const_params = default.flag("action_entry_const", False)
            _check_allowed(default_action, actions, where)
        entries = self._entries(reader, keys, match_type, where)
        for entry in entries:
            _check_allowed(entry.action, actions, where)
        return Table(
            name=name,
            index=index,
            keys=keys,
            match_type=match_type,
            actions=actions,
            max_size=min(reader.integer("max_size", 0, 2**40), MAX_TABLE_SIZE),
            const_entries=entries,
            default_action=default_action,
            default_params=default_params,
            default_is_const=const_action,
            default_params_are_const=const_params,
            with_counters=reader.flag("with_counters", False),
            support_timeout=reader.flag("support_timeout", False),
            profile=profile,
            meter=self._meter(reader, where),
        )

    def _meter(self, reader: Reader, where: str) -> str | None:
        """Return the name of the table's direct meter."""
        name = reader.text_or_none("direct_meters")
        if name is not None and name not in self.names.direct_meters:
            raise BadProgram(f"{where}: there is no direct meter {name!r}")
        return name

    def _profile(self, reader: Reader, where: str) -> str | None:
        """Return the name of the table's action profile."""
        kind = reader.text("type")
        if kind == "simple":
            return None
        if kind not in ("indirect", "indirect_ws"):
            raise UnsupportedConstruct(f"table of type {kind!r}", where)
        name = reader.text("action_profile")
        if name not in self.profiles:
            raise BadProgram(f"{where}: there is no action profile {name!r}")
        if reader.array("entries", optional=True):
            raise UnsupportedConstruct("constant entries beside an action profile", where)
        return name

    def _table_actions(self, reader: Reader, where: str) -> dict[str, int]:
        ids = reader.array("action_ids", optional=True)
        if not ids:
            by_name = {a.name: a for a in self.actions.values()}
            names = reader.array("actions")
            if not all(isinstance(n, str) and n in by_name for n in names):
                raise BadProgram(f"{where} has an unknown action")
            return {n: by_name[n].index for n in names}
        result: dict[str, int] = {}
        for action_id in ids:
            action = self._action(action_id, where)
            result[action.name] = action.index
        return result

    def _action(self, action_id: Any, where: str) -> Action:
        if type(action_id) is not int or action_id not in self.actions:
            raise BadProgram(f"{where}: there is no action with id {action_id!r}")
        return self.actions[action_id]

    def _key(self, reader: Reader) -> KeyField:
        kind = reader.text("match_type")
        if kind not in MatchType._value2member_map_:
            raise UnsupportedConstruct(f"match type {kind!r}", reader.path)
        header_name, field_name = text_pair(reader.data.get("target"), f"{reader.path}.target")
        header = self.names.header(header_name, reader.path)
        mask = hex_value(reader.data["mask"], reader.path) if reader.has("mask") else None
        if field_name == "$valid$":
            field, width = -1, 1
        else:
            field = self.names.field(header, field_name, reader.path)
            width = self.names.headers[header].type.fields[field].width
        name = reader.text("name") if reader.has("name") else f"{header_name}.{field_name}"
        return KeyField(name, MatchType(kind), width, header, field, mask)

    def _action_entry(self, reader: Reader, where: str) -> tuple[str, tuple[int, ...]]:
        action = self._action(reader.integer("action_id"), where)
        data = reader.array("action_data", optional=True)
        if len(data) != len(action.params):
            raise BadProgram(f"{reader.path}: {action.name!r} takes {len(action.params)} values")
        params = []
        for value, param in zip(data, action.params, strict=True):
            params.append(hex_value(value, reader.path) & ((1 << param.width) - 1))
        return action.name, tuple(params)

    def _entries(
        self, reader: Reader, keys: tuple[KeyField, ...], match_type: MatchType, where: str
    ) -> tuple[TableEntry, ...]:
        readers = reader.objects("entries", optional=True)
        raw_priorities = [
            r.integer("priority", 0, 2**31) if r.has("priority") else 0 for r in readers
        ]
        top = max(raw_priorities, default=0) + 1
        entries: list[TableEntry] = []
        for r, raw in zip(readers, raw_priorities, strict=True):
            matches = r.objects("match_key")
            if len(matches) != len(keys):
                raise BadProgram(f"{r.path}: the key has {len(keys)} fields")
            key = tuple(_match(m, k) for m, k in zip(matches, keys, strict=True))
            action, params = self._action_entry(r.child("action_entry"), where)
            # A low number wins in the JSON file, a high one in P4Runtime and here.
            ranked = match_type in (MatchType.TERNARY, MatchType.RANGE)
            priority = top - raw if ranked else 0
            entries.append(TableEntry(key, priority, action, params, is_const=True))
        return tuple(entries)


def _check_allowed(action: str, actions: Container[str], where: str) -> None:
    if action not in actions:
        raise BadProgram(f"{where}: {action!r} is not one of the table's actions")


def _table_match_type(keys: tuple[KeyField, ...], where: str) -> MatchType:
    kinds = {k.match_type for k in keys}
    if MatchType.RANGE in kinds:
        return MatchType.RANGE
    if kinds & {MatchType.TERNARY, MatchType.OPTIONAL}:
        return MatchType.TERNARY
    lpm = sum(k.match_type is MatchType.LPM for k in keys)
    if lpm > 1:
        raise UnsupportedConstruct("more than one lpm field in a key", where)
    return MatchType.LPM if lpm else MatchType.EXACT


def _match(reader: Reader, key: KeyField) -> MatchKey:
    """Read one field of a constant entry."""
    kind = reader.text("match_type")
    full = (1 << key.width) - 1

    def number(name: str) -> int:
        value = hex_value(reader.data.get(name), f"{reader.path}.{name}")
        if not 0 <= value < 1 << ((key.width + 7) // 8 * 8):
            raise BadProgram(f"{reader.path}.{name} does not fit {key.width} bits")
        return value & full

    if kind != key.match_type and {kind, str(key.match_type)} != {"ternary", "optional"}:
        raise BadProgram(f"{reader.path}: {kind!r} entry for a field matched as {key.match_type}")
    match key.match_type:
        case MatchType.EXACT:
            return MatchKey(number("key"))
        case MatchType.LPM:
            length = reader.integer("prefix_length", 0, key.width)
            prefix = full & ~(full >> length)
            return MatchKey(number("key") & prefix, prefix_len=length)
        case MatchType.RANGE:
            low, high = number("start"), number("end")
            if low > high:
                raise BadProgram(f"{reader.path}: start {low} is above end {high}")
            return MatchKey(low, high=high)
    mask = number("mask")
    return MatchKey(number("key") & mask, mask=mask)
