"""Commands of bmv2's command line that tests use."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from softswitch.dataplane import DataPlane
from softswitch.meters import MeterConfig, MeterStore
from softswitch.program import CounterArray, MatchKey, RegisterArray
from softswitch.stf.entry import Entry, number
from softswitch.stf.grammar import Command, StfError
from softswitch.stf.names import find
from softswitch.stf.profiles import Profiles
from softswitch.stf.replication import Replication
from softswitch.value_sets import ValueSetStore


class Commands:
    """Runs commands on a switch."""

    def __init__(self, switch: DataPlane) -> None:
        groups = (Replication(switch), Arrays(switch), Profiles(switch), ValueSets(switch))
        self._known = {name: entry for group in groups for name, entry in group.entries().items()}

    def run(self, command: Command) -> None:
        """Run one command. Raises StfError or another SoftSwitchError."""
        entry = self._known.get(command.name)
        if entry is None:
            raise StfError(f"there is no command {command.name!r}")
        if not entry.least <= len(command.args) <= entry.most:
            raise StfError(f"{command.name} takes {entry.usage}")
        entry.run(*command.args)


class Arrays:
    """Counters, registers and meters. Rates of meters are in units per microsecond, as in bmv2."""

    def __init__(self, switch: DataPlane) -> None:
        self.switch = switch

    def entries(self) -> dict[str, Entry]:
        """Return the commands by name."""
        rates = "RATE:BURST RATE:BURST"
        return {
            "counter_read": Entry(self._counter_read, 2, 2, "COUNTER INDEX"),
            "counter_write": Entry(self._counter_write, 4, 4, "COUNTER INDEX PACKETS BYTES"),
            "counter_reset": Entry(self._counter_reset, 1, 1, "COUNTER"),
            "register_read": Entry(self._register_read, 1, 2, "REGISTER INDEX"),
            "register_write": Entry(self._register_write, 3, 3, "REGISTER INDEX VALUE"),
            "register_reset": Entry(self._register_reset, 1, 1, "REGISTER"),
            "meter_get_rates": Entry(self._meter_get, 2, 2, "METER INDEX"),
            "meter_set_rates": Entry(self._meter_set, 4, 4, f"METER INDEX {rates}"),
            "meter_array_set_rates": Entry(self._meters_set, 3, 3, f"METER {rates}"),
        }

    def _counter(self, name: str) -> CounterArray:
        arrays = self.switch.program.counter_arrays
        return find("counter", name, {n: c for n, c in arrays.items() if not c.is_direct})

    def _counter_read(self, name: str, index: str) -> None:
        self.switch.counter_read(self._counter(name).name, number(index))

    def _counter_write(self, name: str, index: str, packets: str, octets: str) -> None:
        counter = self._counter(name)
        self.switch.counter_write(counter.name, number(index), number(packets), number(octets))

    def _counter_reset(self, name: str) -> None:
        counter = self._counter(name)
        for index in range(counter.size):
            self.switch.counter_write(counter.name, index, 0, 0)

    def _register(self, name: str) -> RegisterArray:
        return find("register", name, self.switch.program.register_arrays)

    def _register_read(self, name: str, index: str = "0") -> None:
        self.switch.register_read(self._register(name).name, number(index), 1)

    def _register_write(self, name: str, index: str, value: str) -> None:
        self.switch.register_write(self._register(name).name, number(index), number(value))

    def _register_reset(self, name: str) -> None:
        register = self._register(name)
        self.switch.register_write(register.name, 0, 0, register.size)

    def _meter(self, name: str) -> MeterStore:
        meters = {n: m for n, m in self.switch.meters.items() if m.meter.table is None}
        return find("meter", name, meters)

    def _meter_get(self, name: str, index: str) -> None:
        self._meter(name).read(number(index))

    def _meter_set(self, name: str, index: str, committed: str, peak: str) -> None:
        self._meter(name).write(number(index), _meter_config(committed, peak))

    def _meters_set(self, name: str, committed: str, peak: str) -> None:
        meter = self._meter(name)
        meter.write(0, _meter_config(committed, peak), meter.meter.size)


class ValueSets:
    """Parser value sets; their members are written as one number, the parts concatenated."""

    def __init__(self, switch: DataPlane) -> None:
        self.switch = switch

    def entries(self) -> dict[str, Entry]:
        """Return the commands by name."""
        return {
            "pvs_add": Entry(self._add, 2, 2, "VALUE_SET VALUE"),
            "pvs_remove": Entry(self._remove, 2, 2, "VALUE_SET VALUE"),
            "pvs_get": Entry(self._find, 1, 1, "VALUE_SET"),
            "pvs_clear": Entry(self._clear, 1, 1, "VALUE_SET"),
        }

    def _find(self, name: str) -> ValueSetStore:
        return find("value set", name, self.switch.value_sets)

    def _member(self, store: ValueSetStore, word: str) -> tuple[MatchKey, ...]:
        value, parts = number(word), []
        for width in reversed(store.value_set.widths):
            parts.append(MatchKey(value & (1 << width) - 1))
            value >>= width
        if value:
            raise StfError(f"{word} does not fit value set {store.value_set.name!r}")
        return tuple(reversed(parts))

    def _add(self, name: str, word: str) -> None:
        store = self._find(name)
        store.write([*store.members(), self._member(store, word)])

    def _remove(self, name: str, word: str) -> None:
        store = self._find(name)
        member = self._member(store, word)
        if member not in store.members():
            raise StfError(f"value set {store.value_set.name!r} has no member {word}")
        store.write([m for m in store.members() if m != member])

    def _clear(self, name: str) -> None:
        self._find(name).write([])


def _meter_config(committed: str, peak: str) -> MeterConfig:
    """Return the configuration of two RATE:BURST words; rates are per microsecond."""
    cir, cburst = _rate(committed)
    pir, pburst = _rate(peak)
    return MeterConfig(cir, cburst, pir, pburst)


def _rate(word: str) -> tuple[int, int]:
    rate, colon, burst = word.partition(":")
    try:
        per_second = Decimal(rate) * 1_000_000
    except InvalidOperation:
        colon = ""
    if not colon or not per_second.is_finite():
        raise StfError(f"{word!r} is not RATE:BURST")
    return round(per_second), number(burst)
