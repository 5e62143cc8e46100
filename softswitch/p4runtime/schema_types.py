"""The objects of a P4Info as the server uses them: ids, names, widths, nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from softswitch.p4runtime.translation import WireType
from softswitch.program import MatchKey, MatchType


@dataclass(frozen=True)
class FieldInfo:
    """A key field; `position` is its place in the data plane's key."""

    id: int
    name: str
    match_type: MatchType
    wire: WireType
    position: int

    @property
    def width(self) -> int:
        """Width in bits in the data plane."""
        return self.wire.width

    @property
    def dont_care(self) -> MatchKey | None:
        """The match that an omitted field means; None where it may not be omitted."""
        if self.match_type is MatchType.EXACT:
            return None
        if self.match_type is MatchType.RANGE:
            return MatchKey(0, high=(1 << self.width) - 1)
        return MatchKey(0)


@dataclass(frozen=True)
class ParamInfo:
    """A parameter of an action, or a field of a controller header."""

    id: int
    name: str
    wire: WireType

    @property
    def width(self) -> int:
        """Width in bits in the data plane."""
        return self.wire.width


@dataclass(frozen=True)
class ActionInfo:
    """An action with its parameters in the data plane's order."""

    id: int
    name: str
    params: tuple[ParamInfo, ...]

    @cached_property
    def slots(self) -> dict[int, tuple[int, ParamInfo]]:
        """Place of each parameter by its id."""
        return {param.id: (slot, param) for slot, param in enumerate(self.params)}


@dataclass(frozen=True)
class ActionRef:
    """An action of a table and where it may be used."""

    action: ActionInfo
    in_entries: bool
    as_default: bool


@dataclass(frozen=True)
class KeyInfo:
    """The key of a table's entries or of a value set's members; `label` is for messages."""

    label: str
    fields: tuple[FieldInfo, ...]

    @cached_property
    def fields_by_id(self) -> dict[int, FieldInfo]:
        """Key fields by id."""
        return {item.id: item for item in self.fields}

    @cached_property
    def fields_by_position(self) -> tuple[FieldInfo, ...]:
        """Key fields in the data plane's order."""
        return tuple(sorted(self.fields, key=lambda item: item.position))

    @cached_property
    def template(self) -> tuple[MatchKey | None, ...]:
        """The key that matches everything, None at exact fields."""
        return tuple(item.dont_care for item in self.fields_by_position)

    @cached_property
    def uses_priority(self) -> bool:
        """True if entries need a priority: some field is ternary, range or optional."""
        kinds = (MatchType.TERNARY, MatchType.RANGE, MatchType.OPTIONAL)
        return any(item.match_type in kinds for item in self.fields)


@dataclass(frozen=True)
class TableInfo(KeyInfo):
    """A table.

    `counter_id` is 0 without a direct counter, `meter_id` without a direct meter, `profile_id`
    without an action profile.
    """

    id: int
    name: str
    actions: dict[int, ActionRef]
    is_const: bool
    const_default: bool
    counter_id: int
    meter_id: int
    idle_timeout: bool
    profile_id: int = 0
    has_initial_entries: bool = False

    @cached_property
    def actions_by_name(self) -> dict[str, ActionInfo]:
        """Actions by name."""
        return {ref.action.name: ref.action for ref in self.actions.values()}


@dataclass(frozen=True)
class CounterInfo:
    """An indirect counter array of `size` cells."""

    id: int
    name: str
    size: int


@dataclass(frozen=True)
class RegisterInfo:
    """A register array of `size` cells; `signed` says how a cell's `width` bits are read."""

    id: int
    name: str
    size: int
    width: int
    signed: bool
    is_bool: bool


@dataclass(frozen=True)
class HeaderInfo:
    """A packet_in or packet_out header: its fields in order, `width` bits in all."""

    name: str
    fields: tuple[ParamInfo, ...]

    @cached_property
    def width(self) -> int:
        """Size of the header in bits."""
        return sum(item.width for item in self.fields)
