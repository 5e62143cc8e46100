"""UPDATEs at a worker: which values it stores, and which it still has to fetch."""

from __future__ import annotations

import numpy as np

from host_stack.codec import Codec, fill_header
from host_stack.incarnation import Incarnation
from host_stack.layout import SERVER_RANK, UDP_PORT, make_tag
from host_stack.placement import Placement
from host_stack.transport import Received, ipv4
from host_stack.updates import Updates
from host_stack.wire import Op
from tests.job_in_memory import LAYOUT, make_job

JOB = make_job(1, 64, 40, 9700)
CODEC = Codec(LAYOUT)
EPOCH = 3
ROW = np.array([1])
LEFT, RIGHT = 0, 1  # the lanes of keys 10 and 11, both in that row


class Replica:
    """A worker's parameters, which are those after five rounds: zeros."""

    def __init__(self) -> None:
        keys = np.array([10, 11], np.uint64)
        placement = Placement(keys, np.array([LEFT, RIGHT]), np.array([1, 1]), LAYOUT)
        self.parameters = np.zeros(64, np.float32)
        incarnation = Incarnation(EPOCH, 5, 40, 1, placement)
        self.updates = Updates(JOB, CODEC, incarnation, 5, self.parameters)

    def take(self, round_: int, **values: float) -> None:
        """An UPDATE of a round arrives, with the value of `left`, of `right`, or both."""
        mask = np.zeros((1, LAYOUT.lanes), np.bool_)
        cells = np.zeros(mask.shape, np.float32)
        for name, value in values.items():
            lane = {"left": LEFT, "right": RIGHT}[name]
            mask[0, lane], cells[0, lane] = True, value
        batch, lengths = CODEC.encode_updates(ROW, mask, cells)
        tag = make_tag(EPOCH, round_)
        fill_header(batch["header"], Op.UPDATE, job=JOB.job, worker=SERVER_RANK, tag=tag)
        data = batch.view(np.uint8).reshape(1, CODEC.update.itemsize)
        source = np.array([ipv4(JOB.server)], np.uint32)
        self.updates.take(Received(data, lengths, source, np.array([UDP_PORT], np.uint16)))

    def lacks(self, round_: int) -> bool:
        """Whether the row has to be fetched, if the round changed it."""
        return bool(len(self.updates.missing(ROW, round_)))

    @property
    def values(self) -> list[float]:
        """Of both keys."""
        return self.parameters[[10, 11]].tolist()


def test_an_update_is_stored() -> None:
    """Its values are there, and nothing is to be fetched."""
    replica = Replica()
    assert replica.lacks(5)
    replica.take(5, left=1.0)
    assert replica.values == [1.0, 0.0]
    assert not replica.lacks(5)
    assert not replica.lacks(4)


def test_an_update_without_cells_brings_nothing() -> None:
    """The server sends it, for the row 0, to open a round on a switch: values may still lack."""
    replica = Replica()
    replica.take(5)
    assert replica.lacks(5)
    replica.take(5, left=1.0)
    assert not replica.lacks(5)


def test_a_later_update_does_not_stand_for_one_that_was_lost() -> None:
    """It brings other cells; the row is fetched, also if the lost one comes late."""
    replica = Replica()
    replica.take(6, right=2.0)
    assert replica.lacks(5)
    assert not replica.lacks(6)
    replica.take(5, left=1.0, right=1.0)
    assert replica.values == [0.0, 2.0]
    assert replica.lacks(5)
    replica.updates.fetched(ROW, 6)
    assert not replica.lacks(5)


def test_updates_that_overtook_what_was_fetched_are_fetched() -> None:
    """What is fetched may be older: the server sent it before it closed the round."""
    replica = Replica()
    replica.take(5, left=1.0)
    replica.parameters[10] = 0.0
    replica.updates.fetched(ROW, 4)
    assert replica.lacks(5)
    replica.updates.fetched(ROW, 5)
    assert not replica.lacks(5)


def test_what_is_settled_is_forgotten() -> None:
    """Later rounds are not."""
    replica = Replica()
    for round_ in (5, 6):
        replica.take(round_, left=1.0)
    replica.updates.settle(6)
    assert not replica.lacks(6)
    assert list(replica.updates._stored) == [6]
