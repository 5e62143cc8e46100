"""libra_tna.p4 as logic: sums, rounds, drains over pipes, and a whole job."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from controller.tables import Attachment
from controller.targets.ports import Chip
from host_stack.fixedpoint import split_digits, to_fixed
from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.wire import REASONS_PER_SLOT, DrainFormat, Reason
from tests.job_in_memory import (
    GROUP,
    LAYOUT,
    SWITCH,
    MemoryJob,
    addresses,
    membership_of,
    ports,
    random_pushes,
    two_cells,
)
from tests.memory_network import Faults, MemoryNetwork
from tests.switch_under_test import F, SwitchUnderTest
from tests.test_job import NUM_KEYS, expected
from tests.test_switch_program import every_exponent, is_ack, went_to_server
from tests.tofino_model import LANES, Cables, TofinoModel, TofinoUnderTest

pytest_plugins = ("tests.tofino_model_fixtures",)

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]


WORKERS = 3
HOT = 200


def digits_of(switch: SwitchUnderTest, row: int, round_: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """d1 and d0 of a row, int32 for each touched lane."""
    (out,) = switch.drain(row, round_=round_)
    record = switch.drained(out)
    used = int(record["used"][0])
    words = record["cells"][0].astype(np.uint32).view(np.int32)[: 2 * used.bit_count()]
    return words[0::2], words[1::2]


def test_every_exponent_and_sign(tofino: TofinoUnderTest) -> None:
    """One gradient a cell: digits are the reference's, and what escapes goes to the server."""
    values = every_exponent()
    _, first = np.unique(values.view(np.uint32) >> 23, return_index=True)
    escapes = to_fixed(values, F)[1][first]
    kept, escape = values[first][~escapes], values[first][escapes]
    kept = np.resize(kept, (-(-len(kept) // LANES), LANES))
    for row, packet in enumerate(kept):
        record = tofino.grad(row % 4, np.full(LANES, row), packet)
        assert is_ack(tofino.push(row % 4, record), row % 4)
        d1, d0 = split_digits(to_fixed(packet, F)[0])
        found = digits_of(tofino, row)
        assert (found[0].tolist(), found[1].tolist()) == (d1.tolist(), d0.tolist())
    for lane, value in enumerate(escape[: 2 * LANES]):
        packet = np.ones(LANES, np.float32)
        packet[lane % LANES] = value
        record = tofino.grad(0, np.full(LANES, 60), packet)
        assert went_to_server(tofino.push(0, record), record.tobytes())
    assert digits_of(tofino, 60)[0].size == 0
    assert tofino.reasons()["escaped"] == 2 * LANES


def test_sums_of_all_workers(tofino: TofinoUnderTest) -> None:
    """Random gradients in random order, some twice; rows are asked for in one run."""
    rng = np.random.default_rng(7)
    sums = np.zeros((6, LANES), np.int64)
    packets = []
    for rank in range(tofino.workers):
        for row in range(6):
            lanes = np.sort(rng.choice(LANES, 11, replace=False))
            values = (rng.standard_normal(11) * 10.0 ** rng.uniform(-9, 1, 11)).astype(np.float32)
            sums[row, lanes] += to_fixed(values, F)[0]
            packets.append((rank, tofino.grad(rank, np.full(11, row), values, lanes=lanes)))
    for index in [*rng.permutation(len(packets)), *rng.permutation(len(packets))[:5]]:
        rank, record = packets[index]
        assert tofino.push(rank, record)
    outs = tofino.drain(0, rows=6)
    assert len(outs) == 6
    for out in outs:
        record = tofino.drained(out)
        cells = tofino.codec.decode_drained(record, DrainFormat.DIGITS)
        assert cells.sums is not None
        found = np.zeros(LANES, np.int64)
        found[cells.lanes] = cells.sums
        assert np.array_equal(found, sums[int(record["row"][0])])
    assert (tofino.reasons()["aggregated"], tofino.reasons()["duplicate"]) == (24, 5)


def test_rounds_are_closed_in_every_pipe(tofino: TofinoUnderTest) -> None:
    """Banks alternate; what is older than the lowest open round is stale for all workers."""
    rows = np.full(LANES, 2)
    for round_, value in enumerate((1.0, 2.0, 4.0)):
        for rank in range(tofino.workers):
            record = tofino.grad(rank, rows, np.full(LANES, value, np.float32), round_)
            assert is_ack(tofino.push(rank, record), rank)
        assert sorted(out.port for out in tofino.close(round_)) == [2, 3, 4, 5]
    for rank in range(tofino.workers):
        stale = tofino.grad(rank, rows, np.ones(LANES, np.float32), 2)
        assert went_to_server(tofino.push(rank, stale), stale.tobytes())
        early = tofino.grad(rank, rows, np.ones(LANES, np.float32), 5)
        assert went_to_server(tofino.push(rank, early), early.tobytes())
    high, low = split_digits(to_fixed(np.full(LANES, 4.0, np.float32), F)[0] * tofino.workers)
    found = digits_of(tofino, 2, round_=2)
    assert (found[0] * 2**24 + found[1]).tolist() == (high * 2**24 + low).tolist()
    assert (tofino.reasons()["stale"], tofino.reasons()["early"]) == (4, 4)


def test_a_whole_job(tofino_chip: Chip) -> None:
    """Three workers in three pipes, the server in a fourth; packets are lost and doubled."""
    pushes = random_pushes(WORKERS, 2, NUM_KEYS, 600, seed=6, wild=0.01)
    model = TofinoModel(tofino_chip)
    places = dict(zip(ports(WORKERS).values(), (395, 10, 137, 266), strict=True))

    def host(address: str) -> Attachment:
        return Attachment(address, "02:00:00:00:00:01", places[ports(WORKERS)[address]])

    def make(job: Job, _placement: Placement) -> MemoryNetwork:
        membership = membership_of(job, 2, host)
        model.install(membership, SWITCH)
        faults = Faults(loss=0.02, duplication=0.02, reordering=0.02, seed=4)
        cables = Cables(model, places)
        return MemoryNetwork(ports(WORKERS), GROUP, addresses(WORKERS), cables, faults)

    layout = replace(LAYOUT, lanes=LANES)
    job = MemoryJob(pushes, NUM_KEYS, HOT, make, F, place=two_cells, layout=layout)
    job.job = replace(job.job, drain_digits=True)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.counters["drained_rows"] > 0
    counted = model.counters()
    base = 2 * REASONS_PER_SLOT
    for reason in (Reason.AGGREGATED, Reason.ESCAPED, Reason.DRAINED):
        assert counted[base + reason] > 0, reason
    assert not any(counted[base + reason] for reason in (Reason.MALFORMED, Reason.NO_ROUTE))
