"""Incarnations of a job: an epoch with the placement and the scale that hold in it.

The controller names incarnations, for it has to install them on the switches; the server decides
when one begins and orders workers to go on in it (sections 4 and 5 of the design).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.layout import EPOCH_BITS, MAX_EPOCH, MAX_ROUND
from host_stack.placement import Placement
from host_stack.standing import Standing
from host_stack.transport import ipv4
from host_stack.wire import MAX_HOPS

MAX_PLACEMENT_BYTES = 64 << 20

_HEAD = struct.Struct(">HIhII")


def is_newer(epoch: int, than: int) -> bool:
    """Whether an epoch comes after another one: serial arithmetic over 12 bits (RFC 1982)."""
    distance = (epoch - than) % (1 << EPOCH_BITS)
    return 0 < distance < 1 << (EPOCH_BITS - 1)


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; 0 is none."""
    return epoch % MAX_EPOCH + 1


@dataclass(frozen=True)
class Incarnation:
    """A job from one change of its epoch to the next.

    Attributes:
        epoch: 1…4095.
        round: the first round of this epoch.
        fraction_bits: F.
        version: number of the placement, counted by the controller.
        placement: where the hot keys are.
        planned: another placement waits for the next epoch. The server asks for that when it
            costs least, between two rounds.
        chain: IPv4 addresses of the switches of other racks that sum for the job in this epoch; a
            drain visits them, in this order, before the job's own. Workers need not know it.
        on_switch: switches sum for the job in this epoch, so that a packet that reaches the server
            is the server's only if it escapes. Workers need not know it either.
    """

    epoch: int
    round: int
    fraction_bits: int
    version: int
    placement: Placement
    planned: bool = False
    chain: tuple[str, ...] = ()
    on_switch: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epoch <= MAX_EPOCH:
            raise BadInput(f"epoch {self.epoch}: allowed are 1 to {MAX_EPOCH}")
        if not 0 <= self.round <= MAX_ROUND:
            raise BadInput(f"round {self.round}: allowed are 0 to {MAX_ROUND}")
        check_fraction_bits(self.fraction_bits)
        if len(self.chain) > MAX_HOPS:
            raise BadInput(
                f"{len(self.chain)} switches before the last one: allowed are {MAX_HOPS}"
            )
        for address in self.chain:
            ipv4(address)

    @cached_property
    def _placement_bytes(self) -> bytes:
        file = io.BytesIO()
        self.placement.save(file)
        return file.getvalue()

    def encode(self, known_version: int) -> bytes:
        """Bytes for a peer that has placement `known_version`, which is then left out."""
        body = b"" if known_version == self.version else self._placement_bytes
        head = _HEAD.pack(self.epoch, self.round, self.fraction_bits, self.version, len(body))
        return head + body

    @classmethod
    def decode(cls, data: bytes, known_version: int, known: Placement | None) -> Incarnation:
        """Read bytes of `encode`; `BadInput` if they are none."""
        if len(data) < _HEAD.size:
            raise BadInput(f"an incarnation of {len(data)} bytes; {_HEAD.size} are the least")
        epoch, round_, fraction_bits, version, size = _HEAD.unpack_from(data)
        if size > MAX_PLACEMENT_BYTES or len(data) != _HEAD.size + size:
            raise BadInput(f"an incarnation of {len(data)} bytes, {size} of them placement")
        if size:
            placement = Placement.load(io.BytesIO(data[_HEAD.size :]))
        elif known is not None and version == known_version:
            placement = known
        else:
            raise BadInput(f"placement {version} is not known here (but {known_version}) nor sent")
        return cls(epoch, round_, fraction_bits, version, placement)


class Moved(Exception):
    """The job goes on in another incarnation, behind `steps` steps of this worker.

    Out of `Worker` it means that the server lacks steps that were committed once, and takes them
    up again; `committed` rounds are in its parameters.
    """

    def __init__(self, incarnation: Incarnation, steps: int, committed: int) -> None:
        super().__init__(f"the job goes on behind step {steps}, in epoch {incarnation.epoch}")
        self.incarnation = incarnation
        self.steps = steps
        self.committed = committed


class Incarnations(Protocol):
    """Where the server learns of incarnations: its side of the controller."""

    def fileno(self) -> int:
        """Readable while there is news."""

    def news(self) -> Incarnation | None:
        """The newest incarnation that was not returned before, or None; does not wait."""

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Ask for an incarnation after `seen` that begins with `round_`; it comes as news.

        Asking again for the same changes nothing, so the caller repeats it until it is answered.
        """

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Say that the switch seems not to work; whether news comes of it is not said."""

    def report(self, standing: Standing) -> None:
        """Tell how the job stands; does not wait."""
