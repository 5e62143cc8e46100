"""The plots of `libra place --compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter, StrMethodFormatter

from mininet_topos.plot_style import COLOURS, DPI, INK, grid, style


def draw_methods(report: dict[str, Any], path: Path) -> None:
    """Packets, rows and bytes of each method of compare.json, side by side."""
    methods = report["methods"]
    panels = (
        ("Packets above ideal", "packets_ratio", PercentFormatter(1, 1)),
        ("Rows drained a round", "rows_touched", StrMethodFormatter("{x:,.0f}")),
        ("Bytes of rows a round", "hot_bytes", EngFormatter(sep="", places=1)),
    )
    with style():
        figure, axes = grid(1, len(panels), 0.9 + 0.4 * len(methods), sharey=True)
        for axis, (title, field, form) in zip(axes[0], panels, strict=True):
            values = [float(entry[field]) for entry in methods.values()]
            if field == "packets_ratio":
                values = [value - 1 for value in values]
            axis.xaxis.set_major_formatter(form)
            bars = axis.barh(list(methods), values, color=COLOURS[0], height=0.6)
            axis.bar_label(bars, [form(value) for value in values], padding=3, color=INK)
            axis.set_title(title)
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.set_xlim(0, 1.3 * max(values) if max(values) > 0 else 1)
            axis.grid(axis="y", visible=False)
        axes[0][0].invert_yaxis()
        figure.savefig(path, dpi=DPI)


def draw_sizes(report: dict[str, Any], path: Path) -> None:
    """Bytes on the server's link against the size of the hot set, for each number of lanes."""
    with style():
        figure, axes = grid(1, 1, 3.6)
        axis = axes[0][0]
        for colour, curve in zip(COLOURS, report["sizes"], strict=False):
            label = f"{curve['lanes']} lanes: {curve['best']:,} keys, {curve['bound']:.2f}×"
            axis.plot(curve["hot"], curve["server_bytes"], color=colour, label=label)
            axis.axvline(curve["best"], color=colour, linewidth=0.8, linestyle=":")
        axis.set_xlabel("hot keys")
        axis.set_ylabel("bytes a round")
        axis.set_title(
            f"Server's link, {report['workers']} workers with pushes of {report['batch']} examples"
        )
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.yaxis.set_major_formatter(EngFormatter(sep="", unit="B"))
        axis.set_ylim(bottom=0)
        axis.legend()
        figure.savefig(path, dpi=DPI)
