"""The report of a run: one HTML page that needs nothing but itself, beside the plots as PNG files.

All text of the page that comes from the record passes through `html.escape`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from mininet_topos import formats, plots, report_tables
from mininet_topos.json_node import ReportError
from mininet_topos.run_record import RunRecord, parse_run

FILE_NAME = "report.html"


def write_report(run: Mapping[str, Any], out_dir: Path) -> Path:
    """Write the report of a decoded `run.json` into `out_dir`, and return the page's path.

    `out_dir` is made if need be; the plots stay beside the page. Raises `ReportError` for a record
    that is malformed (nothing is written then) and for a directory that cannot be written.
    """
    record = parse_run(run)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        page = render(record, plots.draw_all(record, out_dir))
        path = out_dir / FILE_NAME
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"cannot write the report to {out_dir}: {error.strerror}") from error
    return path


def render(record: RunRecord, drawn: list[plots.Plot]) -> str:
    """Return the page as HTML, with the plots embedded."""
    setup = record.setup
    template = resources.files("mininet_topos").joinpath(FILE_NAME).read_text(encoding="utf-8")
    parts = {
        "title": escape(f"Libra: {setup.model} on {setup.dataset}, {setup.workers} workers"),
        "subtitle": escape(_subtitle(record)),
        "cards": "\n".join(_cards(record)),
        "modes_table": report_tables.modes_table(record),
        "notes": _notes(record),
        "figures": "\n".join(_figure(plot) for plot in drawn),
        "setup_table": report_tables.setup_table(record),
        "hash_table": report_tables.hash_table(record),
        "traffic_details": report_tables.traffic_details(record),
        "footer": escape(_footer(record)),
    }
    return Template(template).substitute(parts)


def _subtitle(record: RunRecord) -> str:
    setup = record.setup
    in_step = setup.consistency == "bsp"
    facts = [
        f"{setup.rounds} synchronous rounds"
        if in_step
        else f"{setup.rounds} steps of each worker, {setup.consistency}"
    ]
    if setup.batch is not None:
        facts.append(f"batch of {setup.batch} per worker")
    if setup.link_mbps is not None:
        facts.append(f"links of {setup.link_mbps:g} Mbit/s")
        facts += [
            f"{name} {rate:g} Mbit/s"
            for name, rate in setup.links_mbps.items()
            if rate != setup.link_mbps
        ]
    if setup.target is not None:
        facts.append(f"target {setup.target}")
    if setup.started is not None:
        facts.append(f"started {setup.started}")
    return " · ".join(facts)


def _footer(record: RunRecord) -> str:
    versions = [f"{name} {version}" for name, version in record.versions.items()]
    if record.setup.libra_version is not None:
        versions.insert(0, f"Libra {record.setup.libra_version}")
    return "Made with " + ", ".join(versions) if versions else "Versions were not recorded"


def _cards(record: RunRecord) -> list[str]:
    cards = []
    if record.speedup is not None:
        cards.append(_speedup_card(record.speedup, record.bound))
    cards.append(_models_card(record))
    if record.hot_coverage is not None:
        cards.append(_coverage_card(record, record.hot_coverage))
    cards += _fault_cards(record)
    saved = _server_link_card(record)
    return [*cards, saved] if saved else cards


def _card(label: str, figure: str, text: str, kind: str = "") -> str:
    opening = f'<li class="{kind}">' if kind else "<li>"
    return (
        f'{opening}<span class="label">{escape(label)}</span>'
        f"<b>{escape(figure)}</b><small>{escape(text)}</small></li>"
    )


def _speedup_card(speedup: float, bound: float | None) -> str:
    text = "Median round of Libra against server-only."
    if speedup < 1:
        text += " Libra was slower here: the links were not what held the rounds up."
    if bound:
        text += (
            f" The bytes on the links allow {bound:.2f}\N{MULTIPLICATION SIGN} at most; this is "
            f"{formats.percent(speedup / bound)} of it."
        )
    return _card("Speed-up", f"{speedup:.2f}\N{MULTIPLICATION SIGN}", text)


def _models_card(record: RunRecord) -> str:
    names = [formats.mode_label(n) for n in formats.mode_order(list(record.modes))]
    hashes = {mode.model_sha256 for mode in record.modes.values()}
    if len(names) == 1:
        return _card("Trained model", "One mode", f"Only {names[0]} ran: nothing to compare.")
    if len(hashes) == 1:
        text = (
            f"{', '.join(names)}: the trained models are equal, bit for bit "
            f"(SHA-256 {hashes.pop()[:12]}…)."
        )
        return _card("Trained model", "Identical", text, "good")
    if record.setup.consistency != "bsp":
        text = "Workers were not kept in step, so the models depend on the times of this run."
        return _card("Trained model", "Different", text)
    text = (
        f"{len(hashes)} different models from {len(names)} modes. They must be equal bit for bit: "
        "this is a fault, and the run's other figures should not be used."
    )
    return _card("Trained model", "Different", text, "bad")


def _fault_cards(record: RunRecord) -> list[str]:
    """What went wrong, how long it took to recover, and whether anything was lost on the way."""
    cards = []
    faults = [fault for mode in record.modes.values() for fault in mode.faults]
    missed = sum(mode.missed_faults for mode in record.modes.values())
    if missed:
        text = "The training ended before, or never came to their round and phase."
        cards.append(_card("Faults that did not happen", str(missed), text, "bad"))
    if faults:
        times = [fault.recovery_s for fault in faults if fault.recovery_s is not None]
        text = f"{len(faults)} faults were injected."
        if len(faults) > len(times):
            text += f" {len(faults) - len(times)} were not over when the training ended."
        longest = formats.seconds(max(times)) if times else "–"
        text += " Until a round that began after the fault was committed, with the victim back."
        cards.append(_card("Longest recovery", longest, text))
    audits = [mode.conserved for mode in record.modes.values() if mode.conserved is not None]
    if audits:
        good = all(audits)
        text = "Every pushed gradient was applied once, bit for bit."
        if not good:
            text = "What was applied is not what was pushed: see audit.problems in run.json."
        figure, kind = ("Conserved", "good") if good else ("Not conserved", "bad")
        cards.append(_card("Audit", figure, text, kind))
    return cards


def _coverage_card(record: RunRecord, coverage: float) -> str:
    text = "of the pushed gradients were of hot keys"
    hot, total = record.setup.hot_keys, record.setup.num_keys
    if hot is not None:
        text += f": {formats.count(hot)} keys"
        if total:
            text += f", {formats.percent(hot / total)} of {formats.count(total)}"
    return _card("Hot coverage", formats.percent(coverage), text + ".")


def _server_link_card(record: RunRecord) -> str | None:
    totals = {}
    for name in ("libra", "server-only"):
        mode = record.modes.get(name)
        if mode is None or mode.server_link is None:
            return None
        totals[name] = sum(mode.traffic_bytes[mode.server_link].values()) / len(mode.round_s)
    if not totals["server-only"]:
        return None
    change = totals["libra"] / totals["server-only"] - 1
    text = (
        f"Bytes on {report_tables.whose_link(record)} per round, both directions: "
        f"{formats.si(totals['libra'], 'B')} against {formats.si(totals['server-only'], 'B')} "
        "server-only."
    )
    sign = "+" if change > 0 else "\N{MINUS SIGN}"
    return _card("Server's link", f"{sign}{formats.percent(abs(change))}", text)


def _notes(record: RunRecord) -> str:
    if len(record.modes) < 2:
        return ""
    return '<p class="quiet">Bold: the best of the modes, where one is better than the others.</p>'


def _figure(plot: plots.Plot) -> str:
    data = base64.b64encode(plot.path.read_bytes()).decode("ascii")
    return (
        f"<h2>{escape(plot.title)}</h2>\n<figure>"
        f'<img alt="{escape(plot.title)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )
