"""The tables of a run's report, as HTML; every text is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from statistics import median
from typing import TypeVar

from mininet_topos import formats
from mininet_topos.run_record import DIRECTIONS, ModeRecord, RunRecord
from planner.round_model import measured_s, predict_mode, unpredictable

_ABSENT = "–"
_HIGHER_IS_BETTER = {"auc"}
_DIRECTION_LABELS = {"to_switch": "to the switch", "from_switch": "from the switch"}

T = TypeVar("T")

Figure = tuple[float | None, str]
"""A figure as a number, None where the best is not to be marked, and as a text."""


def modes_table(record: RunRecord) -> str:
    """Return a table with a column per mode and a row per figure."""
    names = formats.mode_order(list(record.modes))
    modes = [record.modes[name] for name in names]
    rows = [
        _row("median round", [_time(mode.round_s_median) for mode in modes]),
        _row("95th percentile", [_time(_percentile_95(mode.round_s)) for mode in modes]),
    ]
    rows += _prediction_rows(record, modes)
    if record.setup.batch is not None:
        examples = record.setup.batch * record.setup.workers
        rates = [examples / mode.round_s_median if mode.round_s_median else None for mode in modes]
        cells = [(rate, formats.si(rate, "") if rate else _ABSENT) for rate in rates]
        rows.append(_row("examples per second", cells, higher_is_better=True))
    rows += _quality_rows(modes)
    rows.append(_row("model, SHA-256", [(None, f"{m.model_sha256[:12]}…") for m in modes]))
    rows += _phase_rows(modes)
    rows += _traffic_rows(record, modes)
    rows += _push_rows(modes)
    rows += _counter_rows(modes)
    head = "".join(f"<th>{escape(formats.mode_label(name))}</th>" for name in names)
    return (
        f'<table class="wide"><thead><tr><th></th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table>"
    )


def setup_table(record: RunRecord) -> str:
    """Return what all modes had in common, and what was measured across them."""
    setup = record.setup
    facts: list[tuple[str, str | int | float | None]] = [
        ("data set", setup.dataset),
        ("model", setup.model),
        ("optimiser", setup.optimizer),
        ("workers", setup.workers),
        ("rounds", setup.rounds),
        ("batch per worker", setup.batch),
        ("seed", None if setup.seed is None else str(setup.seed)),
        ("target", setup.target),
        ("lanes", setup.lanes),
        ("rows", setup.rows),
        ("hot keys", setup.hot_keys),
        ("parameters", setup.num_keys),
        ("fraction bits F of the fixed point", setup.fraction_bits),
        ("links (Mbit/s)", setup.link_mbps),
        (
            "predicted bound of the speed-up",
            None if record.bound is None else round(record.bound, 2),
        ),
    ]
    rows = [(name, _plain(value)) for name, value in facts if value is not None]
    rows += [(f"version of {name}", version) for name, version in record.versions.items()]
    return _pairs_table(rows)


def hash_table(record: RunRecord) -> str:
    """Return the full model hash of each mode."""
    body = "\n".join(
        f"<tr><th>{escape(formats.mode_label(name))}</th>"
        f"<td><code>{escape(record.modes[name].model_sha256)}</code></td></tr>"
        for name in formats.mode_order(list(record.modes))
    )
    return f"<table><tbody>\n{body}\n</tbody></table>"


def traffic_details(record: RunRecord) -> str:
    """Return totals of bytes and packets per mode, link and direction, or nothing without any."""
    rows = []
    for name in formats.mode_order(list(record.modes)):
        mode = record.modes[name]
        links = formats.link_order(list(mode.traffic_bytes | mode.traffic_packets))
        for link in links:
            cells = [
                formats.count(traffic[link][direction]) if link in traffic else _ABSENT
                for direction in DIRECTIONS
                for traffic in (mode.traffic_bytes, mode.traffic_packets)
            ]
            label = f"{formats.mode_label(name)}, {link}"
            columns = "".join(f"<td>{cell}</td>" for cell in cells)
            rows.append(f"<tr><th>{escape(label)}</th>{columns}</tr>")
    if not rows:
        return ""
    head = "".join(
        f"<th>{kind} {_DIRECTION_LABELS[direction]}</th>"
        for direction in DIRECTIONS
        for kind in ("bytes", "packets")
    )
    return (
        "<details>\n<summary>Bytes and packets of each link over the whole run</summary>\n"
        f'<div class="scroll"><table class="wide"><thead><tr><th></th>{head}</tr></thead>\n<tbody>'
        + "\n".join(rows)
        + "</tbody></table></div>\n</details>"
    )


def _row(label: str, cells: Sequence[Figure], *, higher_is_better: bool = False) -> str:
    numbers = [number for number, _ in cells if number is not None]
    # A best is marked only where every mode has the figure and they differ.
    best = None
    if len(numbers) == len(cells) > 1 and len({text for _, text in cells}) > 1:
        best = max(numbers) if higher_is_better else min(numbers)
    columns = "".join(
        f'<td class="best">{escape(text)}</td>'
        if best is not None and number == best
        else f"<td>{escape(text)}</td>"
        for number, text in cells
    )
    return f"<tr><th>{escape(label)}</th>{columns}</tr>"


def _group(label: str, columns: int) -> str:
    return f'<tr class="group"><th colspan="{columns + 1}">{escape(label)}</th></tr>'


def _time(value_s: float) -> Figure:
    return value_s, formats.seconds(value_s)


def _prediction_rows(record: RunRecord, modes: Sequence[ModeRecord]) -> list[str]:
    """The time from commit to commit, measured and as the planner predicts it."""
    if not record.setup.link_mbps or unpredictable(record) is not None:
        return []
    if not all(mode.server_link for mode in modes):
        return []
    predicted = [predict_mode(record, mode)[1] for mode in modes]
    return [
        _row("from commit to commit, median", [_time(measured_s(mode)) for mode in modes]),
        _row("… predicted from links and work", [_unmarked(each.round_s) for each in predicted]),
        _row("… if nobody waited for processors", [_unmarked(each.free_s) for each in predicted]),
    ]


def _unmarked(value_s: float) -> Figure:
    return None, formats.seconds(value_s)


def _percentile_95(values: Sequence[float]) -> float:
    """Return the smallest value that at least 95 % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[-(-95 * len(ordered) // 100) - 1]


def _quality_rows(modes: Sequence[ModeRecord]) -> list[str]:
    metrics = dict.fromkeys(m for mode in modes if mode.quality for m in mode.quality.metrics)
    rows = []
    for metric in metrics:
        cells: list[Figure] = []
        for mode in modes:
            values = mode.quality.metrics.get(metric) if mode.quality else None
            cells.append((values[-1], f"{values[-1]:.4f}") if values else (None, _ABSENT))
        label = f"test {formats.metric_label(metric)}, last"
        rows.append(_row(label, cells, higher_is_better=metric in _HIGHER_IS_BETTER))
    return rows


def _phase_rows(modes: Sequence[ModeRecord]) -> list[str]:
    phases = dict.fromkeys(phase for mode in modes for phase in mode.phases_s)
    rows = []
    for phase in phases:
        times = [mode.phases_s.get(phase) for mode in modes]
        rows.append(_row(phase, [_time(median(t)) if t else (None, _ABSENT) for t in times]))
    return [_group("phases of a round, median", len(modes)), *rows] if rows else []


def whose_link(record: RunRecord) -> str:
    """What the link that a figure is of is called."""
    return "the server's link" if record.setup.servers == 1 else "the busiest server's link"


def _traffic_rows(record: RunRecord, modes: Sequence[ModeRecord]) -> list[str]:
    if not any(mode.server_link for mode in modes):
        return []
    rows = [_group(f"{whose_link(record)}, per round".removeprefix("the "), len(modes))]
    for direction in DIRECTIONS:
        cells: list[Figure] = []
        for mode in modes:
            counts = mode.traffic_bytes.get(mode.server_link or "")
            size = counts[direction] / len(mode.round_s) if counts else None
            cells.append((size, _ABSENT if size is None else formats.si(size, "B")))
        rows.append(_row(_DIRECTION_LABELS[direction], cells))
    return rows


def _push_rows(modes: Sequence[ModeRecord]) -> list[str]:
    rows = []
    pushes = [mode.packets_per_push for mode in modes]
    if any(pushes):
        rows.append(_optional("packets per push", pushes, lambda p: f"{p.mean:.1f}"))
        rows.append(_optional("… against the least possible", pushes, lambda p: f"{p.ratio:.3f}"))
    sent_again = [mode.retransmissions for mode in modes]
    if any(n is not None for n in sent_again):
        rows.append(_optional("retransmissions", sent_again, formats.count))
    return [_group("pushes of hot gradients", len(modes)), *rows] if rows else []


def _counter_rows(modes: Sequence[ModeRecord]) -> list[str]:
    reasons = list(dict.fromkeys(reason for mode in modes for reason in mode.counters))
    rows = [
        _optional(
            reason.replace("_", " "), [mode.counters.get(reason) for mode in modes], formats.count
        )
        for reason in reasons
    ]
    return [_group("packets by outcome, whole run", len(modes)), *rows] if rows else []


def _optional(label: str, values: Sequence[T | None], show: Callable[[T], str]) -> str:
    return _row(label, [(None, _ABSENT if v is None else show(v)) for v in values])


def _plain(value: str | int | float | None) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return formats.count(value) if isinstance(value, int) else str(value)


def _pairs_table(rows: Sequence[tuple[str, str]]) -> str:
    body = "\n".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in rows)
    return f"<table><tbody>\n{body}\n</tbody></table>"
