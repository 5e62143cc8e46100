"""The program as the switch sees it: frozen dataclasses made from a bmv2 JSON file.

`softswitch.loader` makes a `Program`; the code generator and the control plane read it. Header
instances, actions, tables and arrays are numbered from 0 in the order of the JSON file, so that
nothing that follows handles names from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softswitch.ir import Calculation, Checksum, Node, ParseState, Primitive


class MatchType(StrEnum):
    """How one key field of a table is matched."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


@dataclass(frozen=True)
class MatchKey:
    """The match of one key field, in the JSON order of the key.

    exact uses `value`; lpm `value` and `prefix_len`; ternary and optional `value` and `mask`;
    range `value` (low end) and `high`, both inclusive.
    """

    value: int
    mask: int = 0
    prefix_len: int = 0
    high: int = 0


@dataclass(frozen=True)
class Reference:
    """What an entry of a table with an action profile points to: a member, or a group of them."""

    id: int
    is_group: bool = False


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table.

    A higher `priority` wins; it is 0 when the table has no ternary, range or optional field. In a
    table with an action profile `target` says what happens, and `action` and `params` are empty.
    """

    key: tuple[MatchKey, ...]
    priority: int
    action: str = ""
    params: tuple[int, ...] = ()
    is_const: bool = False
    target: Reference | None = None


@dataclass(frozen=True)
class FieldType:
    """A field of a header type; `offset` is in bits from the start of the header.

    The width of a varbit field is its largest one, and fields that follow it have the offset that
    they have when it is empty. What is assigned to a saturating field is clamped to its range.
    """

    name: str
    width: int
    signed: bool
    offset: int
    varbit: bool = False
    saturating: bool = False


@dataclass(frozen=True)
class HeaderType:
    """A header or metadata struct type; `width` in bits, without a varbit field."""

    name: str
    fields: tuple[FieldType, ...]
    width: int

    @property
    def varbit(self) -> int | None:
        """Index of the varbit field, if there is one."""
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)

    @property
    def max_width(self) -> int:
        """Width in bits with the largest varbit field."""
        return self.width + sum(f.width for f in self.fields if f.varbit)


@dataclass(frozen=True)
class Header:
    """A header or metadata instance.

    `stack` and `slot` place it in a header stack; `union` are all headers of its header union.
    """

    name: str
    index: int
    type: HeaderType
    metadata: bool
    stack: int | None = None
    slot: int = 0
    union: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeaderStack:
    """A header stack: `members` are header indices, [0] first."""

    name: str
    index: int
    type: HeaderType
    members: tuple[int, ...]


@dataclass(frozen=True)
class UnionStack:
    """A stack of header unions; `index` follows those of the header stacks.

    `members` are header stacks: the first members of all of its unions, the second ones, and so on.
    """

    name: str
    index: int
    unions: tuple[tuple[int, ...], ...]
    members: tuple[int, ...]


@dataclass(frozen=True)
class ActionParam:
    """A run-time parameter of an action; `width` in bits."""

    name: str
    width: int


@dataclass(frozen=True)
class Action:
    """An action: its parameters, as the control plane gives them, and its primitives."""

    name: str
    index: int
    params: tuple[ActionParam, ...]
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True)
class KeyField:
    """A key field of a table; `header` and `field` index the program, `mask` is static."""

    name: str
    match_type: MatchType
    width: int
    header: int
    field: int
    mask: int | None = None


@dataclass(frozen=True)
class Table:
    """A match-action table.

    `actions` maps the name of each allowed action to its index in `Program.actions`. A table
    whose `const_entries` is not empty is immutable. `profile` and `meter` name its action profile
    and its direct meter, if it has them.
    """

    name: str
    index: int
    keys: tuple[KeyField, ...]
    match_type: MatchType
    actions: dict[str, int]
    max_size: int
    const_entries: tuple[TableEntry, ...]
    default_action: str | None
    default_params: tuple[int, ...]
    default_is_const: bool
    default_params_are_const: bool
    with_counters: bool
    support_timeout: bool
    profile: str | None = None
    meter: str | None = None

    @property
    def uses_priority(self) -> bool:
        """True when entries need a priority (some field is ternary, range or optional)."""
        return self.match_type in (MatchType.TERNARY, MatchType.RANGE)

    @property
    def is_const(self) -> bool:
        """True when the control plane may not change the entries."""
        return bool(self.const_entries)


@dataclass(frozen=True)
class ActionProfile:
    """Members, which are actions with their parameters, that entries of tables point to.

    `actions` maps the names of the actions of its tables to their index in `Program.actions`.
    `selector` names the calculation that picks a member of a group; without one there are no
    groups.
    """

    name: str
    index: int
    max_size: int
    actions: dict[str, int]
    selector: str | None


@dataclass(frozen=True)
class CounterArray:
    """A counter array; a direct one belongs to a table and has no size of its own."""

    name: str
    index: int
    size: int
    table: str | None

    @property
    def is_direct(self) -> bool:
        """True when the counter belongs to the entries of a table."""
        return self.table is not None


@dataclass(frozen=True)
class MeterArray:
    """A meter array.

    A direct one belongs to the entries of `table`, has no size of its own, and writes the color of
    a packet that hits one into the field `target` (header, field).
    """

    name: str
    index: int
    size: int
    counts_bytes: bool
    table: str | None
    target: tuple[int, int] | None


@dataclass(frozen=True)
class ValueSet:
    """A parser value set; `widths` in bits are those of the parts of the keys it is used with."""

    name: str
    index: int
    max_size: int
    widths: tuple[int, ...]


@dataclass(frozen=True)
class Digest:
    """A kind of message to the control plane; `widths` in bits are those of its fields."""

    name: str
    index: int
    widths: tuple[int, ...]


@dataclass(frozen=True)
class RegisterArray:
    """A register array of `size` cells of `width` bits."""

    name: str
    index: int
    size: int
    width: int


@dataclass(frozen=True)
class FieldList:
    """Fields that a clone, resubmit or recirculate preserves, as (header, field) indices."""

    id: int
    fields: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Pipeline:
    """Ingress or egress: nodes in topological order; node `len(nodes)` is the end."""

    name: str
    nodes: tuple[Node, ...]
    init: int


@dataclass(frozen=True)
class Program:
    """A validated v1model program."""

    headers: tuple[Header, ...]
    stacks: tuple[HeaderStack, ...]
    union_stacks: tuple[UnionStack, ...]
    actions: tuple[Action, ...]
    tables: dict[str, Table]
    action_profiles: dict[str, ActionProfile]
    counter_arrays: dict[str, CounterArray]
    register_arrays: dict[str, RegisterArray]
    meter_arrays: dict[str, MeterArray]
    value_sets: dict[str, ValueSet]
    digests: dict[str, Digest]
    field_lists: dict[int, FieldList]
    calculations: tuple[Calculation, ...]
    checksums: tuple[Checksum, ...]
    errors: dict[str, int]
    parse_states: tuple[ParseState, ...]
    init_state: int | None
    ingress: Pipeline
    egress: Pipeline
    deparser: tuple[int, ...]
    deparser_primitives: tuple[Primitive, ...]
    aliases: dict[str, tuple[int, int]]

    def field(self, header: int, field: int) -> FieldType:
        """Return the type of a field given by its header and field index."""
        return self.headers[header].type.fields[field]

    def find_field(self, name: str) -> tuple[int, int] | None:
        """Return (header, field) of a target's field such as `standard_metadata.egress_spec`.

        Field aliases of the program come first, then real names; None if there is neither.
        """
        if name in self.aliases:
            return self.aliases[name]
        header_name, _, field_name = name.rpartition(".")
        for header in self.headers:
            if header.name == header_name:
                for index, field in enumerate(header.type.fields):
                    if field.name == field_name:
                        return header.index, index
        return None
