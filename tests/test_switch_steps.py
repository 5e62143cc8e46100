"""The alignment of the Tofino program, run as logic: libra.p4 with STEP_ALIGN, bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import STEP_LANES, STEP_PROGRAM, Artifact
from host_stack.fixedpoint import split_digits, to_fixed
from host_stack.wire import DrainFormat
from tests import test_switch_program as narrow
from tests.bmv2_switch import bmv2
from tests.switch_fixtures import TARGETS
from tests.switch_under_test import F, SwitchUnderTest, embedded

ROWS = 60
"""Of the job's rows; a packet of the next round takes a cell over."""


@pytest.fixture(
    scope="module",
    params=TARGETS,
)
def switch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SwitchUnderTest]:
    """A switch of each target that runs v1model programs."""
    artifact = Artifact.load(STEP_PROGRAM)
    if request.param == "soft":
        with embedded(artifact, F) as provisioned:
            yield provisioned
        return
    log: Path = tmp_path_factory.mktemp("bmv2") / "bmv2.log"
    with bmv2(log) as (ports, address):
        on_bmv2 = SwitchUnderTest(ports, artifact, address, "bmv2", F, workers=4)
        asyncio.run(on_bmv2.provision())
        yield on_bmv2


def test_every_exponent_and_sign(switch: SwitchUnderTest) -> None:
    """One gradient a cell: the digits are the reference's, escapes go to the server."""
    lanes = switch.artifact.layout.lanes
    values = narrow.every_exponent(2)
    _, escape = to_fixed(values, F)
    # Escaping values share packets of their own, so that the others are aggregated.
    values = values[np.argsort(escape, kind="stable")].reshape(-1, lanes)
    added = 0
    for number, packet in enumerate(values):
        round_, row = divmod(number, ROWS)
        fixed, escapes = to_fixed(packet, F)
        record = switch.grad(0, np.full(lanes, row), packet, round_)
        outs = switch.push(0, record)
        if escapes.any():
            assert narrow.went_to_server(outs, record.tobytes())
            continue
        assert narrow.is_ack(outs, 0)
        words = switch.drained(switch.drain(row, round_=round_)[0])["cells"][0]
        d1, d0 = split_digits(fixed)
        assert np.array_equal(words.astype(np.uint32).view(np.int32)[0::2], d1)
        assert np.array_equal(words.astype(np.uint32).view(np.int32)[1::2], d0)
        added += 1
    assert added > len(values) // 2


def test_the_program_is_the_one_that_is_meant(switch: SwitchUnderTest) -> None:
    """It takes shifts in steps, in each lane, and none by a variable."""
    info = switch.artifact.p4info
    assert switch.artifact.layout.lanes == STEP_LANES
    for lane in range(STEP_LANES):
        for step in ("bits", "bytes"):
            assert f'"LibraIngress.align{lane}.{step}"' in info
    assert ".left" not in info and ".right" not in info


def test_sums_of_all_workers(switch: SwitchUnderTest) -> None:
    """Random gradients of very different sizes, added in any order, in a round of their own."""
    lanes = switch.artifact.layout.lanes
    rng = np.random.default_rng(11)
    round_ = 1000
    sums = np.zeros((4, lanes), np.int64)
    packets = []
    for rank in range(switch.workers):
        for row in range(len(sums)):
            scale = 10.0 ** rng.uniform(-9, 1, lanes)
            values = (rng.standard_normal(lanes) * scale).astype(np.float32)
            sums[row] += to_fixed(values, F)[0]
            packets.append((rank, switch.grad(rank, np.full(lanes, row), values, round_)))
    for index in rng.permutation(len(packets)):
        rank, record = packets[index]
        assert narrow.is_ack(switch.push(rank, record), rank)
    for row, expected in enumerate(sums):
        digits = switch.drained(switch.drain(row, round_=round_)[0])
        cells = switch.codec.decode_drained(digits, DrainFormat.DIGITS)
        assert np.array_equal(cells.sums, expected)
