"""The byte model: what a round costs on the server's link, and how many keys to place."""

from __future__ import annotations

import numpy as np
import pytest

from controller.byte_model import RowCosts, SizeCurve, cold_bytes, hot_set_size, saved_bytes
from controller.identify import Heat
from host_stack.layout import Layout
from tests.heats import zipf_heat
from tests.host_support import LAYOUT

WIDE = Layout(lanes=64, rows=8192, window=256, program=1)


def test_nothing_sampled_places_nothing() -> None:
    """Without heat there is no hot set."""
    assert hot_set_size(Heat.count([], 10), 8, LAYOUT) == 0


def test_zero_when_nothing_pays() -> None:
    """Keys that hardly anyone touches cost more rows than they save."""
    heat = Heat(np.arange(5000, dtype=np.uint64), np.full(5000, 1e-3), 1000)
    assert hot_set_size(heat, 2, LAYOUT) == 0


def test_every_key_when_all_are_hot() -> None:
    """Keys of every batch all pay, up to the cells of the switch."""
    heat = Heat(np.arange(5000, dtype=np.uint64), np.ones(5000), 100)
    assert hot_set_size(heat, 4, LAYOUT) == 5000
    small = Layout(lanes=32, rows=64, window=256, program=1)
    assert hot_set_size(heat, 4, small) == small.cells


@pytest.mark.parametrize("exponent", [0.7, 0.9, 1.1, 1.4])
def test_more_workers_place_more(exponent: float) -> None:
    """Each worker pays for a cold key, all share a hot one."""
    sizes = [hot_set_size(zipf_heat(exponent), workers, LAYOUT) for workers in (1, 2, 4, 8, 16, 32)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_the_size_is_the_best(workers: int) -> None:
    """No other size saves more bytes, and the chosen one saves some."""
    heat = zipf_heat()
    saved = saved_bytes(heat, workers, LAYOUT)
    size = hot_set_size(heat, workers, LAYOUT)
    assert saved[size - 1] == saved[: LAYOUT.cells].max() > 0


def test_saved_bytes_of_one_key_by_hand() -> None:
    """A key of every batch: 32 bytes a worker saved, a cell and a lane's share of a row spent."""
    heat = Heat(np.zeros(1, np.uint64), np.ones(1), 10)
    saved = saved_bytes(heat, 4, LAYOUT)
    # 99 bytes of frames and acknowledgements go with 1448 of a stream.
    cold = 4 * 32 * (1 + 99 / 1448)
    assert saved.tolist() == pytest.approx([cold - 8 - (64 / 32 + 66 + 64) / 32], abs=1e-6)


def test_row_costs_by_hand() -> None:
    """Headers as docs/wire.md has them, and a 32nd of a DRAIN, with 32 and with 64 lanes."""
    narrow = RowCosts.of(LAYOUT)
    assert (narrow.request, narrow.drained, narrow.update) == (42 + 22, 42 + 24, 42 + 22)
    assert narrow.both == 64 / 32 + 66 + 64
    wide = RowCosts.of(WIDE)
    assert (wide.request, wide.drained, wide.update) == (42 + 22, 42 + 28, 42 + 26)


def test_more_lanes_save_more() -> None:
    """With 64 lanes rows cost less a key, so that more keys pay and the bound is higher."""
    heat = zipf_heat(0.9)
    curves = [SizeCurve.of(heat, float(heat.share.sum()), 8, layout) for layout in (LAYOUT, WIDE)]
    assert curves[0].best < curves[1].best
    assert 1 < curves[0].bound < curves[1].bound


def test_the_curve_of_sizes() -> None:
    """It begins with all keys cold, and is nowhere below the best size."""
    heat = zipf_heat()
    curve = SizeCurve.of(heat, 100.0, 4, LAYOUT, points=50)
    assert curve.sizes[0] == 0
    assert curve.server_bytes[0] == pytest.approx(4 * cold_bytes(100.0))
    assert curve.server_bytes.min() >= curve.best_bytes
    assert curve.best == hot_set_size(heat, 4, LAYOUT)
    nothing = SizeCurve.of(Heat.count([], 10), 100.0, 4, LAYOUT)
    assert (nothing.best, nothing.bound) == (0, 1.0)
