"""Plots of the planner, in the style of a run's report, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from mininet_topos.formats import mode_label
from mininet_topos.plot_style import COLOURS, DPI, INK, grid, style
from planner.from_run import ModePrediction
from planner.question import Answer
from planner.sweeping import Sweep
from planner.units import rate_text

MAX_CURVES = len(COLOURS)
_FEW_POINTS, _FEW_TICKS = 30, 10
_LONG_S = 10.0
"""From there on, times are drawn in seconds."""


def draw_answer(answer: Answer, path: Path) -> None:
    """Draw when messages are ready and pass, and the scaling factor of each scheme."""
    passed, profile = answer.passage, answer.question.job.profile
    with style():
        figure, axes = grid(1, 2, 3.4, width_ratios=[1.7, 1])
        panel, bars = axes[0]
        rows = np.arange(len(passed.messages))
        unit, size_s = ("ms", 1e-3) if passed.end_s[-1] < _LONG_S else ("s", 1.0)
        ready, begin, end = (
            np.asarray(each) / size_s
            for each in (passed.messages.ready_s, passed.begin_s, passed.end_s)
        )
        panel.barh(rows, begin - ready, left=ready, color="#C9CED6", label="waits")
        panel.barh(rows, end - begin, left=begin, color=COLOURS[0], label="passes")
        panel.axvline(profile.backward_s / size_s, color=INK, lw=1.2, ls="--", label="pass ends")
        panel.invert_yaxis()
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlim(left=0)
        panel.set_ylabel("message")
        panel.set_xlabel(f"time since the backward pass began ({unit})")
        panel.set_title("messages")
        panel.grid(axis="y", visible=False)
        _legend_above(panel)
        _draw_schemes(bars, answer)
        _save(figure, path)


def _draw_schemes(panel: Any, answer: Answer) -> None:
    names = list(answer.schemes)
    chosen = answer.question.job.scheme.name
    colours = [COLOURS[0] if name == chosen else "#9aa5b1" for name in names]
    drawn = panel.barh(range(len(names)), list(answer.schemes.values()), color=colours)
    label = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    panel.bar_label(
        drawn, [f"{value:.3f}" for value in answer.schemes.values()], padding=3, bbox=label
    )
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    target = answer.question.target
    panel.axvline(target, color=INK, lw=1.2, ls="--", zorder=0, label=f"target {target:g}")
    _legend_above(panel)
    panel.set_xlim(0, 1.18)
    panel.set_xlabel("scaling factor")
    panel.set_title("schemes")
    panel.grid(axis="y", visible=False)


def _legend_above(panel: Any) -> None:
    """Beside the title, where nothing is drawn."""
    panel.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2, columnspacing=1.2
    )


def draw_sweep(sweep: Sweep, target: float, path: Path) -> None:
    """Draw scaling factors against the axis with most values, a curve for each of the others."""
    with style():
        _save(sweep_figure(sweep, target), path)


def sweep_figure(sweep: Sweep, target: float) -> Figure:
    """A figure of a sweep.

    Of more than `MAX_CURVES` curves those are drawn that are spread evenly over all.
    """
    along, curves = sweep_curves(sweep)
    picked = np.unique(np.linspace(0, len(curves) - 1, MAX_CURVES).astype(int))
    with style():
        figure, axes = grid(1, 1, 3.6)
        panel = axes[0][0]
        for colour, index in zip(COLOURS, picked, strict=False):
            label, x, factors = curves[index]
            marker = "." if len(x) < _FEW_POINTS else ""
            panel.plot(x, factors, color=colour, lw=1.8, marker=marker, label=label)
        panel.axhline(target, color=INK, lw=1, ls="--", label=f"target {target:g}")
        _scale_along(panel, along, curves[0][1])
        panel.set_ylim(0, 1.03)
        panel.set_ylabel("scaling factor")
        panel.legend(loc="best")
    return figure


def _scale_along(panel: Any, along: str, values: NDArray[np.float64]) -> None:
    """An axis with equal factors between ticks, which are at the values where these are few."""
    if len(values) > 2:
        panel.set_xscale("log")
    if len(values) <= _FEW_TICKS:
        panel.set_xticks(np.unique(values))
        panel.minorticks_off()
    text = rate_text if along.startswith("link") else "{:g}".format
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: text(x)))
    panel.set_xlabel(along)


Curve = tuple[str, NDArray[np.float64], NDArray[np.float64]]


def sweep_curves(sweep: Sweep) -> tuple[str, list[Curve]]:
    """The axis with most values, and a curve for each combination of the others.

    A curve is what it is called, its points on the axis, and scaling factors there.
    """
    columns = {
        "link rate (bit/s)": sweep.rate_bps,
        "workers": np.asarray(sweep.workers, np.float64),
        "utilisation": sweep.utilization,
        "compression": sweep.ratio,
    }
    sizes = {name: len(np.unique(column)) for name, column in columns.items()}
    # The utilisation of a measured transport follows from the rate, and is no axis then.
    if len(sweep) < np.prod([float(size) for size in sizes.values()]):
        del columns["utilisation"]
    along = max(columns, key=sizes.__getitem__)
    others = {name: column for name, column in columns.items() if name != along}
    stacked = np.stack(list(others.values()), axis=1)
    curves: list[Curve] = []
    for values in np.unique(stacked, axis=0):
        mine = np.flatnonzero((stacked == values).all(axis=1))
        order = mine[np.argsort(columns[along][mine], kind="stable")]
        label = _curve_label(dict(zip(others, values.tolist(), strict=True)), sizes)
        curves.append(
            (label or "scaling factor", columns[along][order], sweep.scaling_factor[order])
        )
    return along, curves


def draw_rounds(predictions: Sequence[ModePrediction], path: Path) -> None:
    """Draw what the predicted round of each mode is made of, beside the measured one."""
    with style():
        figure, axes = grid(1, 1, 1.2 + 0.8 * len(predictions))
        panel = axes[0][0]
        rows = np.arange(len(predictions))
        left_ms = np.zeros(len(predictions))
        for colour, (label, names) in zip(COLOURS, _STACKED.items(), strict=False):
            parts_s = [sum(each.here.parts_s[name] for name in names) for each in predictions]
            wide_ms = 1e3 * np.array(parts_s)
            panel.barh(rows, wide_ms, 0.55, left=left_ms, color=colour, label=label)
            left_ms += wide_ms
        for style_, label, values_s in (
            ("-", "measured", [each.measured_s for each in predictions]),
            (":", "predicted if none waits", [each.here.free_s for each in predictions]),
        ):
            at_ms = 1e3 * np.array(values_s)
            panel.vlines(at_ms, rows - 0.4, rows + 0.4, color=INK, lw=2, ls=style_, label=label)
        panel.set_yticks(rows, [mode_label(each.name) for each in predictions])
        panel.invert_yaxis()
        panel.set_xlabel("predicted time of a round (ms)")
        panel.grid(axis="y", visible=False)
        figure.legend(loc="outside lower center", ncols=4)
        _save(figure, path)


_STACKED = {
    "compute": ("compute",),
    "values and pushes, which overlap": ("values", "push", "overlap"),
    "drain": ("drain",),
    "apply": ("apply",),
    "updates": ("update",),
}


def _curve_label(values: dict[str, float], sizes: dict[str, int]) -> str:
    parts = []
    for name, value in values.items():
        if sizes[name] > 1:
            shown = rate_text(value) if name.startswith("link") else f"{name} {value:.3g}"
            parts.append(shown)
    return ", ".join(parts)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=DPI, facecolor="white")
