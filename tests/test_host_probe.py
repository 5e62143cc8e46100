"""PROBE: a switch of another layout or epoch is refused, a silent one is not waited for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from host_stack.codec import PROBE, fill_header, overlay
from host_stack.errors import LayoutMismatch
from host_stack.layout import make_tag
from host_stack.probe import probe
from host_stack.wire import Flag, Op
from tests.job_in_memory import GROUP, LAYOUT, SERVER, SWITCH, addresses, make_job, ports
from tests.memory_network import MemoryNetwork

JOB = make_job(1, 100, 40, 9700)


class Answering(MemoryNetwork):
    """A network whose switch answers PROBEs with given fields."""

    def __init__(self, **fields: int) -> None:
        super().__init__(ports(1), GROUP, addresses(1))
        self.asked = 0
        self._fields = fields

    def carry(self, source: str, destination: str, payload: bytes) -> None:
        """Answer what is sent to the switch."""
        assert destination == SWITCH
        assert len(payload) == PROBE.itemsize
        self.asked += 1
        if not self._fields:
            return
        data = np.frombuffer(payload, np.uint8).reshape(1, -1).copy()
        answer = overlay(data, PROBE)
        fill_header(answer["header"], Op.PROBE, job=JOB.job, worker=0, tag=make_tag(1, 0))
        answer["header"]["flags"] = Flag.REPLY
        for name, value in self._fields.items():
            answer[name] = value
        self.transport(source).put(SWITCH, data.tobytes())


def test_a_switch_of_the_same_layout_answers() -> None:
    """One question is enough."""
    network = Answering(lanes=32, rows=8192, window=256, program=1, epoch=1)
    assert probe(JOB, 0, network.transport(addresses(1)[0]))
    assert network.asked == 1


def test_silence_means_that_the_job_is_not_there() -> None:
    """The question is repeated, for it may be lost."""
    network = Answering()
    assert not probe(JOB, 0, network.transport(SERVER))
    assert network.asked > 1


@pytest.mark.parametrize(
    ("name", "value", "mine"),
    [
        ("lanes", 16, LAYOUT.lanes),
        ("window", 128, LAYOUT.window),
        ("program", 2, LAYOUT.program),
        ("epoch", 7, 1),
    ],
)
def test_a_mismatch_names_both_values(name: str, value: int, mine: int) -> None:
    """The error says what is here and what is there."""
    fields = {"lanes": 32, "rows": 8192, "window": 256, "program": 1, "epoch": 1, name: value}
    network = Answering(**fields)
    with pytest.raises(LayoutMismatch, match=f"{name} is {mine} here and {value} at switch"):
        probe(JOB, 0, network.transport(SERVER))


def test_answers_of_others_are_ignored() -> None:
    """An answer for another job is none."""
    network = Answering(lanes=32, rows=8192, window=256, program=1, epoch=1)
    other = replace(JOB, job=2)
    assert not probe(other, 0, network.transport(SERVER))
