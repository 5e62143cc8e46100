"""The plot of faults and recoveries: rounds committed against time."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mininet_topos import formats
from mininet_topos.plot_style import COLOURS, grid, style
from mininet_topos.run_record import FaultRecord, RunRecord

MAX_LABELS = 12
"""More faults than that are marked without a word."""


def draw_faults(record: RunRecord, colours: Mapping[str, str]) -> Figure | None:
    """Draw a row for each mode in which something was killed or cut; None if nothing was."""
    names = formats.mode_order([name for name, mode in record.modes.items() if mode.faults])
    drawn = [(name, record.modes[name].timeline) for name in names]
    rows = [(name, timeline) for name, timeline in drawn if timeline is not None]
    if not rows:
        return None
    with style():
        figure, axes = grid(len(rows), 1, 0.6 + 2.4 * len(rows), sharex=True)
        for (axis,), (name, timeline) in zip(axes, rows, strict=True):
            times, rounds = [0.0, *timeline.at_s], [0.0, *timeline.committed]
            axis.step(times, rounds, where="post", color=colours[name], lw=1.6)
            for index, fault in enumerate(record.modes[name].faults):
                colour = COLOURS[(index + 1) % len(COLOURS)]
                axis.axvline(fault.at_s, color=colour, lw=1.0)
                if fault.recovery_s is not None:
                    end_s = fault.at_s + fault.recovery_s
                    axis.axvspan(fault.at_s, end_s, color=colour, alpha=0.13, lw=0)
                if len(record.modes[name].faults) <= MAX_LABELS:
                    # Faults of one moment must not hide each other's words.
                    height = 0.97 - 0.11 * (index % 8)
                    axis.annotate(
                        _words(fault),
                        (fault.at_s, height),
                        xycoords=("data", "axes fraction"),
                        xytext=(4, 0),
                        textcoords="offset points",
                        va="top",
                        fontsize=8,
                        color=colour,
                    )
            axis.set_title(formats.mode_label(name))
            axis.set_ylabel("rounds committed")
            axis.yaxis.set_major_locator(MaxNLocator(6, integer=True))
            axis.set_ylim(bottom=0)
        axes[-1][0].set_xlabel("time (s)")
    return figure


def _words(fault: FaultRecord) -> str:
    phase = f" ({fault.phase})" if fault.phase else ""
    lasted = "" if fault.recovery_s is None else f", {formats.seconds(fault.recovery_s)}"
    return f"{fault.action} {fault.target}, round {fault.round}{phase}{lasted}"
