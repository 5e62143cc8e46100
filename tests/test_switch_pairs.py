"""Second cells, which the switch adds while it is drained, against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_stack.fixedpoint import to_fixed, to_float32
from host_stack.placement import next_masks
from host_stack.wire import DrainFormat
from tests.switch_under_test import F, Out, SwitchUnderTest
from tests.test_switch_program import every_exponent, is_ack

pytest_plugins = ("tests.switch_fixtures",)

ROW, SECOND = 3, 40


def push(
    switch: SwitchUnderTest, rank: int, row: int, lanes: np.ndarray, values: np.ndarray, round_: int
) -> None:
    """Add gradients to cells of a row."""
    record = switch.grad(rank, np.full(len(lanes), row), values, round_, lanes=lanes)
    assert is_ack(switch.push(rank, record), rank)


def answer(switch: SwitchUnderTest, out: Out, form: DrainFormat) -> dict[int, int]:
    """Lane to the sum in it, or to the bits of its float32."""
    record = switch.drained(out)
    assert record["format"][0] == form
    cells = switch.codec.decode_drained(record, form)
    found = cells.sums if cells.values is None else cells.values.view(np.uint32)
    assert found is not None
    return dict(zip(cells.lanes.tolist(), found.tolist(), strict=True))


def finished(sums: dict[int, int]) -> dict[int, int]:
    """The same sums as bits of float32."""
    values = to_float32(np.array([*sums.values()], np.int64), F).view(np.uint32)
    return dict(zip(sums, values.tolist(), strict=True))


def test_every_mask(switch: SwitchUnderTest) -> None:
    """Cells of both rows are summed by key, some of them touched in one row alone, or in none."""
    lanes = switch.artifact.layout.lanes
    rng = np.random.default_rng(3)
    for round_, mask in enumerate(range(1, lanes)):
        sums: dict[int, int] = {}
        for rank in range(switch.workers):
            for row, flip in ((ROW, 0), (SECOND, mask)):
                chosen = np.flatnonzero(rng.random(lanes) < 0.3)
                scale = 10.0 ** rng.uniform(-9, 1, len(chosen))
                values = (rng.standard_normal(len(chosen)) * scale).astype(np.float32)
                push(switch, rank, row, chosen ^ flip, values, round_)
                for lane, fixed in zip(chosen.tolist(), to_fixed(values, F)[0], strict=True):
                    sums[lane] = sums.get(lane, 0) + int(fixed)
        for form, expected in (
            (DrainFormat.DIGITS, sums),
            (DrainFormat.FLOAT32, finished(sums)),
        ):
            # Reading changes nothing: the second answer is the first.
            for _ in range(2):
                (out,) = switch.drain(ROW, 1, form, round_, SECOND, mask)
                assert answer(switch, out, form) == expected
        switch.close(round_)


def test_every_exponent(switch: SwitchUnderTest) -> None:
    """Sums of two cells are rounded once, whatever their exponents and signs."""
    lanes = switch.artifact.layout.lanes
    values = every_exponent(4)
    values = values[~to_fixed(values, F)[1]]
    values = values[: len(values) // (2 * lanes) * 2 * lanes].reshape(-1, 2, lanes)
    for round_, (first, second) in enumerate(values):
        mask = 1 + round_ % (lanes - 1)
        push(switch, 0, ROW, np.arange(lanes), first, round_)
        push(switch, 1, SECOND, np.arange(lanes) ^ mask, second, round_)
        total = to_fixed(first, F)[0] + to_fixed(second, F)[0]
        (out,) = switch.drain(ROW, 1, DrainFormat.FLOAT32, round_, SECOND, mask)
        expected = finished(dict(enumerate(total.tolist())))
        assert answer(switch, out, DrainFormat.FLOAT32) == expected
        switch.close(round_)


@pytest.mark.parametrize("touched", ["none", "first", "second"])
def test_one_row_of_two(switch: SwitchUnderTest, touched: str) -> None:
    """A row that nobody touched adds nothing, and leaves no lane touched."""
    rows = {"none": [], "first": [ROW], "second": [SECOND]}[touched]
    values = np.array([1.5, -2.0], np.float32)
    for row in rows:
        push(switch, 0, row, np.array([4, 7]) ^ (2 if row == SECOND else 0), values, 0)
    sums = dict(zip([4, 7], to_fixed(values, F)[0].tolist(), strict=True)) if rows else {}
    for form, expected in ((DrainFormat.DIGITS, sums), (DrainFormat.FLOAT32, finished(sums))):
        (out,) = switch.drain(ROW, 1, form, 0, SECOND, 2)
        assert answer(switch, out, form) == expected
    # Each row alone is as ever.
    (out,) = switch.drain(SECOND)
    assert len(answer(switch, out, DrainFormat.DIGITS)) == (2 if touched == "second" else 0)


def test_a_run_of_paired_rows(switch: SwitchUnderTest) -> None:
    """Second rows follow each other and masks go round; each row is answered and counted once."""
    layout = switch.artifact.layout
    masks = [layout.lanes // 2]
    for _ in range(9):
        masks.append(int(next_masks(np.array(masks[-1:]), layout)[0]))
    assert masks[1] == 1
    for step, mask in enumerate(masks):
        push(switch, 0, ROW + step, np.array([1]), np.full(1, 2.0, np.float32), 0)
        push(switch, 1, SECOND + step, np.array([1 ^ mask]), np.full(1, step + 1, np.float32), 0)
    outs = switch.drain(ROW, len(masks), DrainFormat.FLOAT32, 0, SECOND, masks[0])
    found = {}
    for out in outs:
        row = int(switch.drained(out)["row"][0])
        assert row not in found
        found[row] = answer(switch, out, DrainFormat.FLOAT32)
    bits = np.arange(3, 3 + len(masks)).astype(np.float32).view(np.uint32)
    assert found == {ROW + step: {1: int(value)} for step, value in enumerate(bits)}
    assert switch.reasons()["drained"] == len(masks)


def test_what_is_refused(switch: SwitchUnderTest) -> None:
    """A mask that leads out of the lanes, second rows of another job, and requests of strangers."""
    push(switch, 0, 0, np.array([0]), np.ones(1, np.float32), 0)
    lanes = switch.artifact.layout.lanes
    for mask in (lanes, lanes + 1, 255):
        assert switch.drain(ROW, 1, DrainFormat.FLOAT32, 0, SECOND, mask) == []
    for second in (64, 8192, 65535):
        assert switch.drain(ROW, 1, DrainFormat.FLOAT32, 0, second, 1) == []
    # The run leaves the job's rows at its third row.
    assert len(switch.drain(ROW, 4, DrainFormat.FLOAT32, 0, 62, 1)) == 2
    reasons = switch.reasons()
    assert (reasons["malformed"], reasons["unknown_row"], reasons["drained"]) == (3, 4, 2)


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32 - 1), mask=st.integers(1, 31), row=st.integers(0, 62))
def test_largest_sums(switch: SwitchUnderTest, seed: int, mask: int, row: int) -> None:
    """Digits of either sign and of any size are joined as the reference joins them."""
    lanes = switch.artifact.layout.lanes
    rng = np.random.default_rng(seed)
    round_ = switch.next_round()
    total = np.zeros(lanes, np.int64)
    for rank in range(switch.workers):
        bits = rng.integers(0, 1 << 23, lanes) | rng.integers(127 - F, 133, lanes) << 23
        values = (bits | rng.integers(0, 2, lanes) << 31).astype(np.uint32).view(np.float32)
        flip = mask * (rank % 2)
        push(switch, rank, row + rank % 2, np.arange(lanes) ^ flip, values, round_)
        total += to_fixed(values, F)[0]
    (out,) = switch.drain(row, 1, DrainFormat.FLOAT32, round_, row + 1, mask)
    assert answer(switch, out, DrainFormat.FLOAT32) == finished(dict(enumerate(total.tolist())))
    switch.close(round_)
