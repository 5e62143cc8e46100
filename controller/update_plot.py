"""The plot of the update distribution: rank of keys against their share of all updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from controller.key_counts import KeyCounts
from mininet_topos import formats
from mininet_topos.plot_style import COLOURS, DPI, INK, grid, style

POINTS = 300


def draw_updates(oracle: KeyCounts, samples: Sequence[KeyCounts], hot: int, out: Path) -> Path:
    """Draw `updates.png` into `out`, which exists; returns its path.

    One curve has the keys by their counts in all of the training part (`oracle`), the others by
    those of samples; all show shares of the training part's updates.
    """
    counts = np.zeros(oracle.num_keys, np.int64)
    counts[oracle.keys.astype(np.int64)] = oracle.counts
    path = out / "updates.png"
    with style():
        figure, axes = grid(1, 1, 3.6)
        panel = axes[0][0]
        for number, ranked in enumerate(samples):
            look = {"color": COLOURS[1], "lw": 1.0, "alpha": 0.8}
            panel.plot(*_curve(counts, ranked), **look, label=None if number else "by samples")
        panel.plot(*_curve(counts, oracle), color=COLOURS[0], lw=2, label="by exact counts")
        panel.set_xscale("log")
        panel.set_xlim(1, max(10, len(oracle)))
        panel.set_ylim(0, 102)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        panel.set_xlabel("keys, from the most to the least updated")
        panel.set_ylabel("cumulative share of updates (%)")
        if hot:
            panel.axvline(hot, color=INK, lw=1.2, ls="--")
            panel.text(hot, 6, f"hot set: {formats.count(hot)} keys ", ha="right", va="bottom")
        panel.legend(loc="upper left")
        figure.savefig(path, dpi=DPI, facecolor="white")
    return path


def _curve(
    counts: NDArray[np.int64], ranked: KeyCounts
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ranks, and the percentage of updates that the keys up to there hold."""
    total = np.cumsum(counts[ranked.keys.astype(np.int64)])
    if not len(total):
        return np.zeros(0, np.int64), np.zeros(0)
    ranks = np.unique(np.geomspace(1, len(total), POINTS).astype(np.int64))
    return ranks, 100 * total[ranks - 1] / counts.sum()
