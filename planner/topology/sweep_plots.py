"""Plots of comparisons: iteration time against rate, and against cost, by network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from mininet_topos.plot_style import COLOURS, DPI, grid, style

_MARKERS = "osD^vPX"


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, two side by side."""
    columns = min(2, count)
    lines = -(-count // columns)
    figure, axes = grid(lines, columns, 1.0 + 2.5 * lines)
    for axis in axes.flat[count:]:
        axis.axis("off")
    return figure, list(axes.flat[:count])


def draw_times(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw iteration times against the rate of an interface, a panel for each model and degree."""
    panels = list(dict.fromkeys((row["model"], row["degree"]) for row in rows))
    fabrics = list(rows[0]["iteration_ms"])
    with style():
        figure, axes = _panels(len(panels))
        for axis, (model, degree) in zip(axes, panels, strict=False):
            mine = sorted(
                (row for row in rows if (row["model"], row["degree"]) == (model, degree)),
                key=lambda row: float(row["rate_bps"]),
            )
            rates = [row["rate_bps"] for row in mine]
            for colour, mark, name in zip(COLOURS, _MARKERS, fabrics, strict=False):
                times = [row["iteration_ms"][name] / 1e3 for row in mine]
                axis.plot(rates, times, color=colour, marker=mark, markersize=3, label=name)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(f"{model.split(':')[0]}, {degree} interfaces")
            axis.xaxis.set_major_formatter(EngFormatter(unit="bit/s", places=0))
            axis.yaxis.set_major_formatter(EngFormatter(unit="s"))
        axes[0].legend(fontsize=8)
        figure.savefig(path, dpi=DPI)


def draw_costs(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw iteration times against the cost of a server's part of the network."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    fabrics = list(rows[0]["iteration_ms"])
    with style():
        figure, axes = _panels(len(models))
        for axis, model in zip(axes, models, strict=False):
            mine = [row for row in rows if row["model"] == model]
            for colour, mark, name in zip(COLOURS, _MARKERS, fabrics, strict=False):
                axis.scatter(
                    [row["usd_per_server"][name] for row in mine],
                    [row["iteration_ms"][name] / 1e3 for row in mine],
                    color=colour,
                    marker=mark,
                    s=14,
                    label=name,
                )
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(model.split(":")[0])
            axis.set_xlabel("US$ a server")
            axis.yaxis.set_major_formatter(EngFormatter(unit="s"))
        axes[0].legend(fontsize=8)
        figure.savefig(path, dpi=DPI)
