"""The plots of `libra bench switch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import EngFormatter

from mininet_topos.plot_style import COLOURS, DPI, grid, style

Rows = Sequence[dict[str, Any]]


def draw(record: dict[str, Any], folder: Path) -> list[Path]:
    """Draw `contenders.png` and `costs.png` into a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "contenders.png", folder / "costs.png"]
    with style():
        _contenders(record, paths[0])
        _costs(record, paths[1])
    return paths


def _contenders(record: dict[str, Any], path: Path) -> None:
    figure, axes = grid(1, 1, 3.2)
    ax = axes[0][0]
    for i, (name, rates) in enumerate(record["contenders"].items()):
        ax.barh(name, rates["packets_per_s"], color=COLOURS[i % len(COLOURS)])
        ax.plot(rates["repetitions"], [name] * len(rates["repetitions"]), "k.", markersize=4)
    ax.set_xlabel("packets per second (bar: median; dots: repetitions)")
    ax.set_title(f"{record['conditions']['lanes']} lanes, one port")
    figure.savefig(path, dpi=DPI)


def _costs(record: dict[str, Any], path: Path) -> None:
    figure, axes = grid(2, 2, 6.5)
    _lines(axes[0][0], record["by_lanes"], "program", "lanes_used", "lanes in use")
    _lines(axes[0][1], record["by_table"], "kind", "entries", "entries of the table")
    axes[0][1].set(xscale="log", yscale="log", ylim=(10, None))
    for axis in (axes[0][1].xaxis, axes[0][1].yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    _lines(axes[1][0], record["by_size"], None, "bytes", "bytes of a packet, routed only")
    ports = record["by_ports"]
    axes[1][1].plot([p["ports"] for p in ports], [p["packets_per_s"] for p in ports], "o-")
    axes[1][1].set_xlabel("ports")
    axes[1][1].set_ylabel("packets per second")
    axes[1][1].set_ylim(bottom=0)
    figure.savefig(path, dpi=DPI)


def _lines(ax: Any, rows: Rows, group: str | None, x: str, label: str) -> None:
    """One line per group of the median cost over `x`."""
    names = list(dict.fromkeys(row[group] for row in rows)) if group else [None]
    for i, name in enumerate(names):
        chosen = [row for row in rows if group is None or row[group] == name]
        ax.plot(
            [row[x] for row in chosen],
            [row["median_ns"] for row in chosen],
            "o-",
            color=COLOURS[i % len(COLOURS)],
            label=name,
        )
    ax.set_xlabel(label)
    ax.set_ylabel("ns per packet")
    ax.set_ylim(bottom=0)
    if group:
        ax.legend()
