"""The fall-back path: GRAD packets that no switch took reach the server and are summed there.

In an epoch that is on switches, only those whose gradients escape: what else reaches the server has
met a switch that does not know yet that its round is open. Another copy of it may meet one that
does, so that both would be added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from host_stack.aggregator import SoftwareAggregator
from host_stack.codec import HEADER, Bytes, Codec, Records, overlay, version_op
from host_stack.fixedpoint import IntArray, MaskArray, to_fixed
from host_stack.job import Job
from host_stack.layout import ROUND_BITS, TAG_ROUNDS, rounds_before
from host_stack.placement import Placement
from host_stack.sequence import SequenceWindow
from host_stack.transport import Received, Transport, ipv4
from host_stack.wire import HEADER_BYTES, Flag, Op


class Fallback:
    """Checks, adds and acknowledges GRAD packets at the server, with a counter for each reason."""

    def __init__(
        self,
        job: Job,
        placement: Placement,
        aggregator_of: Callable[[int], SoftwareAggregator],
        transport: Transport,
        codec: Codec,
        counters: Counter[str] | None = None,
        *,
        first_round: int = 0,
        on_switch: bool = False,
    ) -> None:
        """Serve one epoch of a job; `aggregator_of` gives that of an open round.

        Counts are added to `counters`. `first_round` is that of the epoch. `on_switch`: switches
        sum in it.
        """
        self._job = job
        self._placement = placement
        self._aggregator_of = aggregator_of
        self._transport = transport
        self._codec = codec
        self._key_of = placement.keys.astype(np.int64)
        self._addresses = np.array([ipv4(a) for a in job.workers], np.uint32)
        self._rounds_before = rounds_before(first_round)
        self._seen = SequenceWindow(len(job.workers), job.layout.window)
        self._on_switch = on_switch
        self.counters: Counter[str] = Counter() if counters is None else counters

    def take(self, received: Received, mask: MaskArray, round_: int) -> int:
        """Handle the datagrams `mask` of a batch while `round_` and the next one are open.

        Returns how many packets of these rounds a switch has to take that passed them on. They are
        not acknowledged.
        """
        records = overlay(received.data, self._codec.grad)
        at = np.flatnonzero(mask & self._is_grad(received, records))
        self._count("malformed", int(mask.sum()) - len(at))
        at = at[self._of_members(received, records, at)]
        tags = records["header"]["tag"][at].astype(np.int64)
        mine = tags >> ROUND_BITS == self._job.epoch
        self._count("wrong_epoch", int((~mine).sum()))
        at, ahead = at[mine], tags[mine] % TAG_ROUNDS + self._rounds_before - round_
        self._count("early", int((ahead > 1).sum()))
        unopened = self._are_unopened(records, at, ahead)
        self._count("unopened", int(unopened.sum()))
        at, ahead = at[~unopened], ahead[~unopened]
        # An open round's packet is added once; a committed round's one had been counted.
        self._count("stale", int((ahead < 0).sum()))
        duplicate = np.zeros(len(received), np.bool_)
        duplicate[at[ahead < 0]] = True
        for open_ in (0, 1):
            chosen = at[ahead == open_]
            counted = self._add(records, chosen, self._aggregator_of(round_ + open_))
            duplicate[chosen[~counted]] = True
        answered = at[ahead <= 1]
        self._acknowledge(records["header"][answered], duplicate[answered])
        return int(unopened.sum())

    def _are_unopened(self, records: Records, at: NDArray[np.intp], ahead: IntArray) -> MaskArray:
        """bool[len(at)]: packets of an open round that are a switch's to add."""
        if not self._on_switch:
            return np.zeros(len(at), np.bool_)
        packets, _, _, gradients = self._codec.decode_grads(records[at])
        _, escape = to_fixed(gradients, self._job.fraction_bits)
        escaping = np.zeros(len(at), np.bool_)
        escaping[packets[escape]] = True
        unopened: MaskArray = (ahead >= 0) & (ahead <= 1) & ~escaping
        return unopened

    def _is_grad(self, received: Received, records: Records) -> MaskArray:
        good: MaskArray = (
            (received.lengths == self._codec.grad.itemsize)
            & (records["header"]["version_op"] == version_op(Op.GRAD))
            & (records["header"]["job"] == self._job.job)
        )
        return good

    def _of_members(self, received: Received, records: Records, at: NDArray[np.intp]) -> MaskArray:
        """bool[len(at)]: rank and source address belong together, and every cell holds a key."""
        ranks = records["header"]["worker"][at].astype(np.int64)
        known = ranks < len(self._addresses)
        address = self._addresses[np.where(known, ranks, 0)]
        member: MaskArray = known & (address == received.sources[at])
        self._count("foreign", int((~member).sum()))
        packets, lanes, rows, _ = self._codec.decode_grads(records[at])
        unknown = packets[self._placement.index_of(lanes, rows) < 0]
        placed = np.ones(len(at), np.bool_)
        placed[unknown] = False
        self._count("unknown_cell", int((member & ~placed).sum()))
        return member & placed

    def _add(
        self, records: Records, at: NDArray[np.intp], aggregator: SoftwareAggregator
    ) -> MaskArray:
        """Add the packets that are new; return bool[len(at)], true where one was added."""
        header = records["header"][at]
        ranks = header["worker"].astype(np.int64)
        epochs = header["tag"].astype(np.int64) >> ROUND_BITS
        seqs = header["seq"].astype(np.int64)
        new = self._seen.is_new(ranks, epochs, seqs)
        self._seen.mark(ranks[new], epochs[new], seqs[new])
        chosen = at[new]
        packets, lanes, rows, gradients = self._codec.decode_grads(records[chosen])
        keys = self._key_of[self._placement.index_of(lanes, rows)]
        owner, orders = ranks[new][packets], seqs[new][packets]
        for rank in np.unique(owner):
            mine = owner == rank
            aggregator.add(int(rank), keys[mine], gradients[mine], orders[mine])
        self._count("added", int(new.sum()))
        self._count("duplicate", int((~new).sum()))
        return new

    def _acknowledge(self, headers: Records, duplicate: MaskArray) -> None:
        acks = headers.copy()
        acks["version_op"] = version_op(Op.ACK)
        acks["flags"] = np.where(duplicate, Flag.BY_SERVER | Flag.DUPLICATE, Flag.BY_SERVER)
        ranks = acks["worker"]
        for rank in np.unique(ranks):
            mine = acks[ranks == rank]
            data: Bytes = mine.view(np.uint8).reshape(len(mine), HEADER.itemsize)
            lengths: IntArray = np.full(len(mine), HEADER_BYTES, np.int64)
            self._transport.send(data, lengths, int(self._addresses[rank]))

    def _count(self, reason: str, packets: int) -> None:
        if packets:
            self.counters[reason] += packets
