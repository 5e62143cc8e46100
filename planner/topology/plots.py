"""Plots of topologies and their traffic, in the style of a run's report, as PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import EngFormatter

from mininet_topos.plot_style import COLOURS, DPI, INK, grid, style
from planner.topology.finder import Demand
from planner.topology.loads import traffic_matrix
from planner.topology.topology import Topology

_LABELS_MAX = 64
"""Servers up to which each has its number in the plot."""


def draw_topology(topology: Topology, path: Path) -> None:
    """Draw servers on a circle, a colour for each ring's step, and matched links."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(topology.servers) / topology.servers
    x, y = np.cos(angle), np.sin(angle)
    with style():
        figure, axes = grid(1, 1, 7.0)
        axis = axes[0][0]
        colours = iter(COLOURS * topology.degree)
        for group in topology.groups:
            for step in group.strides.chosen:
                colour = next(colours)
                name = f"step {step} of {len(group.members)} servers"
                for i, source in enumerate(group.members):
                    to = group.members[(i + step) % len(group.members)]
                    axis.plot(
                        x[[source, to]], y[[source, to]], color=colour, linewidth=1.0, label=name
                    )
                    name = "_"
        name = "matched"
        for a, b in topology.pairs:
            arc = FancyArrowPatch(
                (x[a], y[a]),
                (x[b], y[b]),
                arrowstyle="-",
                connectionstyle="arc3,rad=0.15",
                linestyle="--",
                color=INK,
                linewidth=0.8,
            )
            axis.add_patch(arc)
            axis.plot([], [], color=INK, linewidth=0.8, linestyle="--", label=name)
            name = "_"
        axis.scatter(x, y, s=30, color="white", edgecolors=INK, zorder=3)
        if topology.servers <= _LABELS_MAX:
            for server in range(topology.servers):
                axis.text(1.07 * x[server], 1.07 * y[server], str(server), ha="center", va="center")
        axis.set_title(f"{topology.servers} servers, {topology.degree} interfaces each")
        axis.set_aspect("equal")
        axis.axis("off")
        figure.legend(loc="outside right center")
        figure.savefig(path, dpi=DPI)


def draw_traffic(demand: Demand, topology: Topology, path: Path) -> None:
    """Draw bytes between servers with one ring in the servers' order, and with the rings chosen."""
    panels = (
        ("Before: one ring", traffic_matrix(demand)),
        ("After: rings of the topology", traffic_matrix(demand, topology.groups)),
    )
    highest = max(float(matrix.max()) for _, matrix in panels) or 1.0
    with style():
        figure, axes = grid(1, 2, 4.2)
        for axis, (title, matrix) in zip(axes[0], panels, strict=True):
            shown = np.ma.masked_equal(matrix, 0.0)
            image = axis.imshow(shown, vmin=0, vmax=highest, cmap="viridis_r")
            axis.set_title(title)
            axis.set_xlabel("to server")
            axis.set_ylabel("from server")
            axis.grid(visible=False)
        unit = EngFormatter(unit="B") if highest >= 1e3 else "%g B"
        figure.colorbar(image, ax=axes[0].tolist(), shrink=0.8, format=unit)
        figure.savefig(path, dpi=DPI)
