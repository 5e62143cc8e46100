"""The plots of a run's report, all in one style, as PNG files."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from mininet_topos import formats
from mininet_topos.job_processes import is_server
from mininet_topos.plot_faults import draw_faults
from mininet_topos.plot_style import DPI, INK, grid, style
from mininet_topos.run_record import ModeRecord, RunRecord, Traffic

MAX_LINKS = 9
"""The most links drawn one by one; of more, the workers' mean is drawn."""

# The palette of Okabe and Ito, told apart by colour-blind readers; phases are of paler kinds.
_MODE_COLOURS = {"libra": "#0072B2", "server-only": "#D55E00", "fallback": "#009E73"}
_OTHER_COLOURS = ("#CC79A7", "#56B4E9", "#E69F00", "#555555")
_PHASE_COLOURS = {
    "compute": "#C9CED6",
    "push": "#7FB2D9",
    "commit": "#F0B775",
    "update": "#8CCBB0",
}
_OTHER_PHASE_COLOURS = ("#D3A4C6", "#E8DD8A", "#A89F91")
_STEPS = [1, 2, 5, 10]
_ABOVE: dict[str, Any] = {
    "loc": "lower left",
    "bbox_to_anchor": (-0.02, 1.08),
    "handlelength": 1.0,
    "columnspacing": 1.2,
}


@dataclass(frozen=True)
class Plot:
    """A drawn plot: its file, a heading, and what a reader should know to read it."""

    path: Path
    title: str
    caption: str


def draw_all(record: RunRecord, out_dir: Path) -> list[Plot]:
    """Draw every plot that the record has data for into `out_dir`, which exists."""
    per_round = "Mean per round, headers included."
    drawings = [
        (
            "quality.png",
            "Quality on the test part",
            "After each evaluation, against rounds and against time. The arithmetic is the same in "
            "all modes, so the curves against rounds should lie on each other.",
            _quality(record),
        ),
        (
            "round_time.png",
            "Time of a round",
            "Left: median of each phase, at the worker that a round took longest; the mark is the "
            "median of whole rounds, to which medians of phases need not add up. Right: every "
            "round.",
            _round_time(record),
        ),
        (
            "bytes.png",
            "Bytes on the links",
            per_round + " The server's link is the bottleneck that Libra relieves.",
            _links(record, "bytes", "B"),
        ),
        (
            "faults.png",
            "Faults and recovery",
            "Rounds committed against time, in the modes with faults. A fault is marked where it "
            "happened; the shade reaches to the next commit. The line steps back where a server "
            "went on at its checkpoint.",
            draw_faults(record, _mode_colours(record)),
        ),
        ("packets.png", "Packets on the links", per_round, _links(record, "packets", "")),
        (
            "counters.png",
            "Packets by outcome",
            "Totals over the run, on a logarithmic axis. Gradients that are not aggregated are "
            "summed by the server, in the same arithmetic. IGMP of the hosts counts as no route.",
            _counters(record),
        ),
        (
            "update_shares.png",
            "How hot the hot keys are",
            "Share of the updates of the sample, from which the hot keys were chosen, that goes to "
            "the most often updated keys.",
            _update_shares(record),
        ),
    ]
    plots = []
    for name, title, caption, figure in drawings:
        if figure is not None:
            with style():
                figure.savefig(out_dir / name, dpi=DPI, facecolor="white")
            plots.append(Plot(out_dir / name, title, caption))
    return plots


def _colours(names: Sequence[str], known: dict[str, str], spare: Sequence[str]) -> dict[str, str]:
    others = [name for name in names if name not in known]
    return {**known, **{name: spare[i % len(spare)] for i, name in enumerate(others)}}


def _mode_colours(record: RunRecord) -> dict[str, str]:
    return _colours(list(record.modes), _MODE_COLOURS, _OTHER_COLOURS)


def _round_ticks() -> MaxNLocator:
    return MaxNLocator(7, integer=True, steps=_STEPS)


def _modes(record: RunRecord) -> list[tuple[str, ModeRecord]]:
    return [(name, record.modes[name]) for name in formats.mode_order(list(record.modes))]


def _quality(record: RunRecord) -> Figure | None:
    curves = [(name, mode.quality) for name, mode in _modes(record) if mode.quality]
    metrics = list(dict.fromkeys(m for _, quality in curves for m in quality.metrics))
    if not metrics:
        return None
    colours = _mode_colours(record)
    with style():
        figure, axes = grid(len(metrics), 2, 0.5 + 2.7 * len(metrics), sharey="row")
        for (by_round, by_time), metric in zip(axes, metrics, strict=True):
            # The first mode comes last and thinnest: what lies below coincident curves stays seen.
            for depth, (name, quality) in reversed(list(enumerate(curves))):
                if metric not in quality.metrics:
                    continue
                look = {"color": colours[name], "lw": 1.6 + 2.2 * depth, "solid_capstyle": "round"}
                look |= {"alpha": 1.0 if depth == 0 else 0.55, "label": formats.mode_label(name)}
                by_round.plot(quality.rounds, quality.metrics[metric], **look)
                by_time.plot(quality.elapsed_s, quality.metrics[metric], **look)
            by_round.set_ylabel(f"test {formats.metric_label(metric)}")
            by_round.set_xlabel("round")
            by_time.set_xlabel("time (s)")
            by_round.xaxis.set_major_locator(_round_ticks())
        handles, labels = axes[0][0].get_legend_handles_labels()
        axes[0][1].legend(handles[::-1], labels[::-1])
        axes[0][0].set_title("against rounds")
        axes[0][1].set_title("against time")
    return figure


def _round_time(record: RunRecord) -> Figure:
    modes = _modes(record)
    phases = list(dict.fromkeys(phase for _, mode in modes for phase in mode.phases_s))
    fills = _colours(phases, _PHASE_COLOURS, _OTHER_PHASE_COLOURS)
    colours = _mode_colours(record)
    with style():
        figure, axes = grid(1, 2, 1.9 + 0.45 * len(modes), width_ratios=[1.25, 1])
        stacked, lines = axes[0]
        _stack_phases(stacked, modes, phases, fills)
        for name, mode in reversed(modes):
            rounds = range(1, len(mode.round_s) + 1)
            times_ms = [1e3 * t for t in mode.round_s]
            look = {"color": colours[name], "label": formats.mode_label(name)}
            lines.plot(rounds, times_ms, lw=1.3, marker=".", ms=3, **look)
        lines.set_title("every round")
        lines.set_xlabel("round")
        lines.set_ylabel("time (ms)")
        lines.set_ylim(bottom=0)
        lines.xaxis.set_major_locator(_round_ticks())
        for name, mode in modes:
            lines.axhline(1e3 * mode.round_s_median, color=colours[name], lw=0.8, ls=":")
        handles, labels = lines.get_legend_handles_labels()
        lines.legend(handles[::-1], labels[::-1], ncols=len(labels), **_ABOVE)
    return figure


def _stack_phases(
    axes: Any, modes: list[tuple[str, ModeRecord]], phases: list[str], fills: dict[str, str]
) -> None:
    ends_ms = []
    for row, (_, mode) in enumerate(modes):
        left_ms = 0.0
        for phase in phases:
            times_s = mode.phases_s.get(phase)
            width_ms = 1e3 * statistics.median(times_s) if times_s else 0.0
            axes.barh(row, width_ms, left=left_ms, height=0.62, color=fills[phase])
            left_ms += width_ms
        median_ms = 1e3 * mode.round_s_median
        axes.plot([median_ms] * 2, [row - 0.38, row + 0.38], color=INK, lw=2.2)
        ends_ms.append(max(left_ms, median_ms))
        text = f"  {formats.seconds(mode.round_s_median)}"
        axes.text(ends_ms[-1], row, text, va="center", fontweight="bold")
    for phase in phases:
        axes.barh(0, 0, color=fills[phase], label=phase)
    axes.set_yticks(range(len(modes)), [formats.mode_label(name) for name, _ in modes])
    axes.set_ylim(len(modes) - 0.4, -0.6)
    axes.set_xlim(0, 1.22 * max(*ends_ms, 1e-6))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time (ms)")
    axes.set_title("phases")
    if phases:
        axes.legend(ncols=len(phases), **_ABOVE)


def _links(record: RunRecord, kind: str, unit: str) -> Figure | None:
    """Draw what travels on each link in a round: `kind` is bytes or packets."""
    traffic = {
        name: _per_round(mode.traffic_bytes if kind == "bytes" else mode.traffic_packets, mode)
        for name, mode in _modes(record)
    }
    traffic = {name: links for name, links in traffic.items() if links}
    if not traffic:
        return None
    links = formats.link_order(list({link for mode in traffic.values() for link in mode}))
    colours = _mode_colours(record)
    thickness = 0.8 / len(traffic)
    with style():
        height_in = 1.2 + len(links) * (0.2 + 0.17 * len(traffic))
        figure, axes = grid(1, 2, height_in, sharey=True)
        for side, (panel, title) in enumerate(
            zip(axes[0], ("to the switch", "from the switch"), strict=True)
        ):
            for i, (name, by_link) in enumerate(traffic.items()):
                widths = [by_link.get(link, (0.0, 0.0))[side] for link in links]
                places = [row - 0.4 + (i + 0.5) * thickness for row in range(len(links))]
                label = formats.mode_label(name)
                bars = panel.barh(places, widths, 0.9 * thickness, color=colours[name], label=label)
                texts = [formats.si(width, unit) for width in widths]
                panel.bar_label(bars, texts, padding=3, fontsize=7.5)
            panel.set_title(title)
            panel.set_xlabel(f"{kind} per round")
            panel.xaxis.set_major_formatter(EngFormatter(unit=unit))
            panel.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
            panel.margins(x=0.16)
            panel.grid(axis="y", visible=False)
        axes[0][0].set_yticks(range(len(links)), links)
        axes[0][0].set_ylim(len(links) - 0.45, -0.55)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _per_round(traffic: Traffic, mode: ModeRecord) -> dict[str, tuple[float, float]]:
    """Return (to switch, from switch) per round and link, many workers as their mean."""
    rounds = len(mode.round_s)
    links = {
        link: (counts["to_switch"] / rounds, counts["from_switch"] / rounds)
        for link, counts in traffic.items()
    }
    workers = [link for link in links if not is_server(link)]
    if len(links) <= MAX_LINKS:
        return links
    mean = tuple(statistics.fmean(links[w][side] for w in workers) for side in (0, 1))
    servers = {link: links[link] for link in links if is_server(link)}
    return {**servers, f"mean of {len(workers)} workers": (mean[0], mean[1])}


def _counters(record: RunRecord) -> Figure | None:
    modes = [(name, mode.counters) for name, mode in _modes(record) if mode.counters]
    reasons = list(dict.fromkeys(reason for _, counters in modes for reason in counters))
    if not reasons:
        return None
    colours = _mode_colours(record)
    thickness = 0.8 / len(modes)
    with style():
        height_in = 1.2 + len(reasons) * (0.2 + 0.16 * len(modes))
        figure, axes = grid(1, 1, height_in)
        panel = axes[0][0]
        for i, (name, counters) in enumerate(modes):
            places = [row - 0.4 + (i + 0.5) * thickness for row in range(len(reasons))]
            widths = [counters.get(reason, 0) for reason in reasons]
            label = formats.mode_label(name)
            bars = panel.barh(places, widths, 0.9 * thickness, color=colours[name], label=label)
            panel.bar_label(bars, [formats.count(w) for w in widths], padding=3, fontsize=7.5)
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xlim(0, 10 * max(1, *(max(counters.values()) for _, counters in modes)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.si(x, "")))
        panel.set_xlabel("packets")
        panel.set_yticks(range(len(reasons)), [reason.replace("_", " ") for reason in reasons])
        panel.set_ylim(len(reasons) - 0.45, -0.55)
        panel.grid(axis="y", visible=False)
        figure.legend(loc="outside upper right", ncols=len(modes))
    return figure


def _update_shares(record: RunRecord) -> Figure | None:
    if not record.update_shares:
        return None
    ranks, shares = zip(*sorted(record.update_shares), strict=True)
    hot_keys = record.setup.hot_keys
    with style():
        figure, axes = grid(1, 1, 3.2)
        panel = axes[0][0]
        colour = _MODE_COLOURS["libra"]
        panel.plot(ranks, [100 * share for share in shares], color=colour, lw=2)
        panel.fill_between(ranks, [100 * share for share in shares], color=colour, alpha=0.08)
        panel.set_xscale("log")
        panel.set_xlim(ranks[0], max(ranks[-1], ranks[0] * 10))
        panel.set_ylim(0, 102)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        panel.set_xlabel("keys, from the most to the least updated")
        panel.set_ylabel("cumulative share of updates (%)")
        if hot_keys:
            panel.axvline(hot_keys, color=INK, lw=1.2, ls="--")
            text = f"hot set: {formats.count(hot_keys)} keys "
            if record.hot_coverage is not None:
                text += f"\n{formats.percent(record.hot_coverage)} of pushed gradients "
            panel.text(hot_keys, 6, text, ha="right", va="bottom")
    return figure
