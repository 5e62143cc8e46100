"""Plots of comparisons: iteration time against rate, and against cost, by network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, LogLocator, NullFormatter

from mininet_topos.plot_style import COLOURS, DPI, grid, style

_MARKERS = "osD^vPX"
_DECADE = (1.0, 2.0, 5.0)
"""Where an axis has its ticks."""
_SPAN = 6.0
"""An axis reaches from one value to so many times as much, at least, so that it has ticks."""


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, two side by side."""
    columns = min(2, count)
    lines = -(-count // columns)
    figure, axes = grid(lines, columns, 1.0 + 2.5 * lines)
    for axis in axes.flat[count:]:
        axis.axis("off")
    return figure, list(axes.flat[:count])


def _curve(nth: int) -> dict[str, Any]:
    """How the nth network is drawn: hollow marks, smaller ones over larger, so that all show."""
    return {
        "color": COLOURS[nth % len(COLOURS)],
        "marker": _MARKERS[nth % len(_MARKERS)],
        "markersize": max(3.0, 9.0 - nth),
        "markerfacecolor": "none",
        "linewidth": 1.0,
    }


def _ticks(axis: Axis, formatter: Formatter) -> None:
    """Give a logarithmic axis ticks that can be read, however little it spans."""
    low, high = axis.get_data_interval()
    if high < _SPAN * low:
        middle = (low * high) ** 0.5
        axis.set_view_interval(middle / _SPAN**0.5, middle * _SPAN**0.5, ignore=True)
    axis.set_major_locator(LogLocator(subs=_DECADE))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, axis: Axes) -> None:
    """Name the networks below all panels, once."""
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=8)


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
            for nth, name in enumerate(fabrics):
                times = [row["iteration_ms"][name] / 1e3 for row in mine]
                axis.plot(rates, times, label=name, **_curve(nth))
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(f"{model.split(':')[0]}, {degree} interfaces")
            _ticks(axis.xaxis, EngFormatter(unit="bit/s"))
            _ticks(axis.yaxis, EngFormatter(unit="s"))
        _legend(figure, axes[0])
        figure.savefig(path, dpi=DPI)


def draw_costs(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw iteration times against the cost of a server's part of the network."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    fabrics = list(rows[0]["iteration_ms"])
    with style():
        figure, axes = _panels(len(models))
        for axis, model in zip(axes, models, strict=False):
            mine = [row for row in rows if row["model"] == model]
            for nth, name in enumerate(fabrics):
                costs = [row["usd_per_server"][name] for row in mine]
                times = [row["iteration_ms"][name] / 1e3 for row in mine]
                axis.plot(costs, times, label=name, **_curve(nth) | {"linestyle": "none"})
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(model.split(":")[0])
            axis.set_xlabel("US$ a server")
            _ticks(axis.xaxis, EngFormatter())
            _ticks(axis.yaxis, EngFormatter(unit="s"))
        _legend(figure, axes[0])
        figure.savefig(path, dpi=DPI)
