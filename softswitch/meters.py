"""Meters of a running switch: token buckets that give packets a color."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.binding import u64_array
from softswitch.engine import Handle
from softswitch.errors import InvalidArgument
from softswitch.program import MeterArray, Table

GREEN, YELLOW, RED = range(3)

DEFAULT_ENTRY = (1 << 64) - 1
"""Index of the default entry's meter of a direct meter array."""

MAX_RATE = (1 << 63) - 1
_WORDS = 12


@dataclass(frozen=True)
class MeterConfig:
    """Rates in packets or bytes per second, bursts in packets or bytes.

    Two rates and three colors (RFC 2698); with `single_rate` there is one rate, `cir`, and `pburst`
    is the excess burst (RFC 2697).
    """

    cir: int
    cburst: int
    pir: int
    pburst: int
    single_rate: bool = False


@dataclass(frozen=True)
class MeterState:
    """A meter: its configuration (None: everything is green) and (packets, bytes) per color."""

    config: MeterConfig | None
    colors: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


class MeterStore:
    """One meter array of a running switch. Thread-safe.

    Meters of a direct array are indexed by `DataPlane.entry_index`, or DEFAULT_ENTRY.
    """

    def __init__(self, meter: MeterArray, switch: Handle, table: Table | None) -> None:
        self.meter = meter
        self._switch = switch
        self._place = (0, meter.index) if table is None else (1, table.index)

    def write(self, index: int, config: MeterConfig | None, count: int = 1) -> None:
        """Configure a run of meters and fill their buckets. Raises InvalidArgument."""
        with self._switch.lock:
            self._check(index, count)
            words = [0] * 6 if config is None else self._words(config)
            ctx, (direct, which) = self._switch.ctx, self._place
            data = u64_array(words)
            self._switch.lib.ss_meters_set(ctx, direct, which, index, count, data)

    def clear(self, index: int, count: int = 1) -> None:
        """Set the counts of colors of a run of meters to zero."""
        with self._switch.lock:
            self._check(index, count)
            ctx, (direct, which) = self._switch.ctx, self._place
            self._switch.lib.ss_meters_clear(ctx, direct, which, index, count)

    def read(self, index: int, count: int = 1) -> list[MeterState]:
        """Return a run of meters, read at one moment."""
        with self._switch.lock:
            self._check(index, count)
            out = u64_array([0] * (_WORDS * count))
            ctx, (direct, which) = self._switch.ctx, self._place
            self._switch.lib.ss_meters_read(ctx, direct, which, index, count, out)
            return [_state(out[i : i + _WORDS]) for i in range(0, _WORDS * count, _WORDS)]

    def _check(self, index: int, count: int) -> None:
        size = self.meter.size
        if self.meter.table is None and not 0 <= index <= index + count <= size:
            raise InvalidArgument(
                f"meter {self.meter.name!r} has cells 0 to {size - 1}, not {index} to "
                f"{index + count - 1}"
            )

    def _words(self, config: MeterConfig) -> list[int]:
        numbers = [config.cir, config.cburst, config.pir, config.pburst]
        if any(not 0 <= number <= MAX_RATE for number in numbers):
            raise InvalidArgument(
                f"meter {self.meter.name!r}: rates and bursts are 0 to {MAX_RATE}, not {numbers}"
            )
        if config.pir < config.cir and not config.single_rate:
            raise InvalidArgument(
                f"meter {self.meter.name!r}: the peak rate {config.pir} is below the committed "
                f"rate {config.cir}"
            )
        return [1, int(config.single_rate), *numbers]


def _state(words: list[int]) -> MeterState:
    cir, cburst, pir, pburst = words[2:6]
    config = MeterConfig(cir, cburst, pir, pburst, bool(words[1])) if words[0] else None
    green, yellow, red = ((words[i], words[i + 1]) for i in (6, 8, 10))
    return MeterState(config, (green, yellow, red))
