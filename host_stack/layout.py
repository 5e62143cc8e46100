"""The layout that host, controller and switch must agree on: LANES, rows, W, program version."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from host_stack.errors import BadInput, LayoutMismatch
from host_stack.fixedpoint import MAX_CONTRIBUTIONS

WIRE_VERSION = 1
UDP_PORT = 19522
SERVER_RANK = 0xFFFF
"""The `worker` field of packets that the server sends."""

MAX_WORKERS = MAX_CONTRIBUTIONS
JOBS_PER_SWITCH = 15
"""So many jobs a v1model program tells apart; a job with several servers is one for each."""
MAX_KEYS = 1 << 28
"""The most parameters of a model: the server keeps them, and its optimiser's state, as arrays."""

ROUND_BITS = 20
EPOCH_BITS = 12
TAG_ROUNDS = 1 << ROUND_BITS
"""A tag has the lower bits of a round. All rounds of an epoch have the same upper ones: another
epoch begins with each round that is a multiple of this."""

MAX_ROUND = (1 << 30) - 2
"""A pull names the round behind the one that it waits for in 30 bits (`host_stack.pulls`)."""

MAX_STEP = (1 << 32) - 1
"""In a STATUS: a step that was not pushed. Steps are lower."""

MAX_EPOCH = (1 << EPOCH_BITS) - 1
BITMAP_LANES = (8, 16, 32, 64)
"""The bitmap of a packet is one word."""

MAX_ROWS = 1 << 15
MAX_WINDOW = 1 << 15
MAX_PROGRAM = 0xFFFF


@dataclass(frozen=True)
class Layout:
    """Sizes of a switch program, as its artifact describes them and as a PROBE reports them.

    Attributes:
        lanes: lanes of a packet.
        rows: rows of each lane, per bank.
        window: W, packets that a worker may have in flight.
        program: version of the switch program.
    """

    lanes: int
    rows: int
    window: int
    program: int

    def __post_init__(self) -> None:
        if self.lanes not in BITMAP_LANES:
            raise BadInput(f"{self.lanes} lanes: allowed are {', '.join(map(str, BITMAP_LANES))}")
        for name, size, limit in (
            ("rows", self.rows, MAX_ROWS),
            ("window", self.window, MAX_WINDOW),
        ):
            if not 0 < size <= limit or size & (size - 1):
                raise BadInput(f"{name} {size}: allowed are powers of two up to {limit}")
        if not 0 <= self.program <= MAX_PROGRAM:
            raise BadInput(f"program version {self.program}: allowed are 0 to {MAX_PROGRAM}")

    @classmethod
    def from_fields(cls, fields: Any) -> Layout:
        """Take over a layout that a JSON file describes; `BadInput` if it describes none."""
        names = [each.name for each in dataclass_fields(cls)]
        if not isinstance(fields, dict) or sorted(fields) != sorted(names):
            raise BadInput(f"layout {fields!r}: its fields must be {', '.join(names)}")
        for name, value in fields.items():
            if type(value) is not int:
                raise BadInput(f"layout: {name} is {value!r}, it must be an integer")
        return cls(**fields)

    @property
    def lane_bits(self) -> int:
        """Bits that name a lane."""
        return self.lanes.bit_length() - 1

    @property
    def cells(self) -> int:
        """Cells of one bank: how many hot keys fit on the switch."""
        return self.lanes * self.rows

    def require(self, other: Layout, where: str, *, here: str = "here") -> None:
        """Raise `LayoutMismatch`, naming both values, unless `other` is the same layout.

        `where` says whose layout `other` is, `here` whose this one is.
        """
        for name, mine in asdict(self).items():
            theirs = getattr(other, name)
            if mine != theirs:
                raise LayoutMismatch(f"{name} is {mine} {here} and {theirs} at {where}")


def make_tag(epoch: int, round_: int) -> int:
    """The 32-bit tag: epoch (12), then the lower bits of the round (20)."""
    if not 0 < epoch <= MAX_EPOCH:
        raise BadInput(f"epoch {epoch}: allowed are 1 to {MAX_EPOCH}")
    if not 0 <= round_ <= MAX_ROUND:
        raise BadInput(f"round {round_}: allowed are 0 to {MAX_ROUND}")
    return epoch << ROUND_BITS | round_ % TAG_ROUNDS


def rounds_before(first: int) -> int:
    """How many rounds are before those of an epoch that has round `first`: its upper bits."""
    return first - first % TAG_ROUNDS


def split_tag(tag: int, first: int = 0) -> tuple[int, int]:
    """(epoch, round) of a tag; `first` is any round of that epoch."""
    return tag >> ROUND_BITS, rounds_before(first) + tag % TAG_ROUNDS


def as_cmd(tag: int) -> int:
    """A tag as the signed 32-bit number that a ps-lite message carries."""
    return tag - (1 << 32) if tag >> 31 else tag
