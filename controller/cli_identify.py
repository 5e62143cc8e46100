"""`libra identify`: which keys are hot, how well a sample finds them, whether they move."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller import identification
from controller.artifacts import program_layout
from controller.byte_model import hot_set_size
from controller.drift import Policy
from controller.drift_trace import Followed, follow
from controller.identification import HeldOut, Identified, Judged
from controller.key_counts import KeyCounts
from controller.outputs import check_file, check_folder
from controller.update_plot import draw_updates
from host_stack.errors import BadInput
from host_stack.layout import MAX_ROUND, Layout
from host_stack.placement import Keys
from workloads.datasets import KNOWN
from workloads.models import default_model
from workloads.progress import progress
from workloads.trace import KeyTrace
from workloads.workload import Workload

SCHEMA = 1
MAX_SEEDS = 100
COUNTERS_PER_HOT_KEY = 4
"""Counters of Space-Saving, unless given."""
MAX_WINDOW = 16
WINDOWS = 16
"""Unless given, a trace has at least so many windows of drift detection, and none is longer."""
HALF_LIFE_WINDOWS = 4

_TITLES = ("method", "examples", "recall", "updates", "pushes", "coverage", "CPU", "memory")


def identify(
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(KNOWN)}.")] = "movielens",
    model: Annotated[
        str | None, typer.Option(help="Default: fm for ratings, lr for 0 and 1.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker hosts, for --hot auto and --drift.")] = 8,
    batch: Annotated[int, typer.Option(help="Examples per push.")] = 64,
    sample: Annotated[float, typer.Option(help="Share of the training data to count.")] = 0.08,
    hot: Annotated[
        str, typer.Option(help="Size of the hot set, or auto: what saves most.")
    ] = "auto",
    seeds: Annotated[int, typer.Option(help="Samples to draw and compare.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of data and of the first sample.")] = 1,
    program: Annotated[
        str, typer.Option(help="What the switch runs: for --hot auto, its lanes and rows.")
    ] = "libra",
    counters: Annotated[
        int | None,
        typer.Option(help=f"Of Space-Saving; default: {COUNTERS_PER_HOT_KEY} for each hot key."),
    ] = None,
    drift: Annotated[
        bool, typer.Option("--drift", help="Follow the hot set through the data, in their order.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(help="Follow it through the pushes of this file instead; implies --drift."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            help="Rounds between judgements of --drift; default: up to 16, a 16th of all."
        ),
    ] = None,
    save_traces: Annotated[
        bool, typer.Option("--save-traces", help="Also write held-out.npz and ordered.npz.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("out/identify"),
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Also write identify.json to this file.")
    ] = None,
) -> None:
    """Find the hot keys of a data set: by a sample, by exact counts, by a bounded stream.

    Writes hot.npz (the hot set of the first sample), identify.json and updates.png into OUT; with
    --save-traces also the pushes of the test part, and those of the training part in order.
    """
    check_file("--json", json_path)
    check_folder("--out", out)
    if window is not None and not 1 <= window <= MAX_ROUND:
        raise BadInput(f"--window {window}: allowed are 1 to {MAX_ROUND} rounds")
    if window is not None and not drift and trace is None:
        raise BadInput("--window goes with --drift or --trace")
    if not 1 <= seeds <= MAX_SEEDS:
        raise BadInput(f"--seeds {seeds}: allowed are 1 to {MAX_SEEDS}")
    size = None if hot == "auto" else _size(hot)
    layout = program_layout(program)
    model = model or default_model(dataset)
    workload = Workload.open(dataset, model, seed=seed, workers=workers, batch_size=batch)
    found = _find(workload, sample, seeds, seed, size, layout, counters)
    followed = None
    if trace is not None:
        followed = _follow_trace(workload, trace, found.hot, window)
    elif drift:
        followed = _follow_data(workload, sample, len(found.hot), window)
    report = {
        "schema": SCHEMA,
        **workload.describe(),
        "seed": seed,
        "sample_fraction": sample,
        "hot_chosen_by": "byte model" if size is None else "user",
        **found.report(),
        "drift": None if followed is None else _drift_report(followed),
    }
    out.mkdir(parents=True, exist_ok=True)
    found.hot.save(out / "hot.npz")
    draw_updates(found.oracle.counts, [m.counts for m in found.samples], len(found.hot), out)
    if save_traces:
        _save_traces(workload, out)
    text = json.dumps(report, indent=2) + "\n"
    for path in (out / "identify.json", json_path):
        if path is not None:
            path.write_text(text)
    _show(Console(), report, out)


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 10):
        raise BadInput(f"--hot {text!r}: it must be a number of keys from 0, or auto")
    return int(text)


@dataclass(frozen=True)
class _Found:
    """All methods' results, and the hot set of the first sample."""

    oracle: Identified
    samples: list[Identified]
    stream: Identified
    hot: KeyCounts
    held_out: HeldOut

    def report(self) -> dict[str, Any]:
        """The part of identify.json about methods; see docs/hot-parameters.md."""
        size = len(self.hot)
        best = self.oracle.counts.top(size).keys
        methods = [self.oracle, *self.samples, self.stream]
        judged = [
            identification.judge(m.counts.top(size).keys, best, self.held_out) for m in methods
        ]
        sampled = judged[1:-1]
        hot_sets = [m.counts.top(size).keys for m in self.samples]
        return {
            "hot": size,
            "coverage": _mean(sampled, "coverage"),
            "coverage_of_pushes": _mean(sampled, "coverage_of_pushes"),
            "recall": _mean(sampled, "recall"),
            "stability": identification.stability(hot_sets),
            "methods": [_method(m, j) for m, j in zip(methods, judged, strict=True)],
            "updates": self.oracle.counts.heat(1).cumulative(),
        }


def _find(
    workload: Workload,
    fraction: float,
    seeds: int,
    seed: int,
    size: int | None,
    layout: Layout,
    counters: int | None,
) -> _Found:
    with progress("counting keys", seeds + 3) as advance:
        samples = []
        for each in range(seed, seed + seeds):
            samples.append(identification.sample(workload, fraction, each))
            advance(1)
        if size is None:
            heat = samples[0].counts.heat(workload.schedule.batch_size)
            size = hot_set_size(heat, workload.schedule.workers, layout)
        hot = samples[0].counts.top(size)
        oracle = identification.exact(workload)
        advance(1)
        wanted = max(1, COUNTERS_PER_HOT_KEY * size) if counters is None else counters
        stream = identification.space_saving(workload, min(wanted, workload.model.num_keys))
        advance(1)
        held_out = HeldOut(workload)
        advance(1)
    return _Found(oracle, samples, stream, hot, held_out)


def _mean(judged: list[Judged], field: str) -> float:
    return statistics.fmean(getattr(each, field) for each in judged)


def _method(found: Identified, judged: Judged) -> dict[str, Any]:
    return {
        "method": found.method,
        "seed": found.seed,
        "examples": found.examples,
        **asdict(judged),
        "cpu_s": found.cpu_s,
        "counter_bytes": found.counter_bytes,
        "error_bound": found.error_bound,
    }


def _follow_data(workload: Workload, fraction: float, size: int, window: int | None) -> Followed:
    """Begin with the hot set of the first part of the data, and go through the others in order."""
    seen = min(len(workload.train), max(1, round(len(workload.train) * fraction)))
    first = workload.train.select(np.arange(seen, dtype=np.int64))
    hot = KeyCounts.of(workload.count_keys(first), seen).top(size)
    pushes = (len(workload.train) - seen) // workload.schedule.batch_size
    return _follow(workload, workload.ordered_keys(seen), pushes, hot, window)


def _follow_trace(workload: Workload, path: Path, hot: KeyCounts, window: int | None) -> Followed:
    """Begin with `hot` and go through the pushes of a file."""
    recorded = KeyTrace.load(path)
    if recorded.num_keys != workload.model.num_keys:
        raise BadInput(
            f"{path} is of a model of {recorded.num_keys} keys, {workload.model.name} over "
            f"{workload.dataset.name} has {workload.model.num_keys}"
        )
    return _follow(workload, recorded, len(recorded), hot, window)


def _follow(
    workload: Workload, pushes: Iterable[Keys], number: int, hot: KeyCounts, window: int | None
) -> Followed:
    """Follow `hot` through about `number` pushes."""
    workers = workload.schedule.workers
    if window is None:
        window = min(MAX_WINDOW, max(1, number // workers // WINDOWS))
    policy = Policy(window=window, half_life=HALF_LIFE_WINDOWS * window)
    return follow(pushes, workers, hot.keys, workload.model.num_keys, policy)


def _save_traces(workload: Workload, out: Path) -> None:
    num_keys = workload.model.num_keys
    KeyTrace.of(workload.held_out_keys(), num_keys).save(out / "held-out.npz")
    KeyTrace.of(workload.ordered_keys(), num_keys).save(out / "ordered.npz")


def _drift_report(followed: Followed) -> dict[str, Any]:
    return {
        "rounds": followed.rounds,
        "share_of_pushes_kept": followed.kept,
        "share_of_pushes_followed": followed.followed,
        "proposals": [
            {
                "round": each.round,
                "entering": each.entering,
                "coverage": each.coverage,
                "proposed_coverage": each.proposed_coverage,
            }
            for each in followed.proposals
        ],
    }


def _show(console: Console, report: dict[str, Any], out: Path) -> None:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for title in _TITLES:
        table.add_column(title, no_wrap=True)
    for each in report["methods"]:
        seed = "" if each["seed"] is None else f" {each['seed']}"
        table.add_row(
            each["method"] + seed,
            f"{each['examples']:,}",
            f"{each['recall']:.1%}",
            f"{each['share_of_updates']:.1%}",
            f"{each['share_of_pushes']:.1%}",
            f"{each['coverage']:.1%}",
            f"{each['cpu_s']:.2f} s",
            f"{each['counter_bytes'] / 1e6:.2f} MB",
        )
    console.print(table)
    say = [
        f"{report['hot']:,} of {report['num_keys']:,} keys are hot, chosen by the "
        f"{report['hot_chosen_by']}; judged by {report['test_examples']:,} examples that none saw",
        f"a sample of {report['sample_fraction']:.1%} covers {report['coverage']:.1%} of the "
        f"updates that the exact hot set covers ({report['coverage_of_pushes']:.1%} of gradients "
        f"pushed)"
        + (
            ""
            if report["stability"] is None
            else f"; two samples agree on {report['stability']:.1%} (Jaccard)"
        ),
    ]
    if (moved := report["drift"]) is not None:
        say.append(
            f"drift: {len(moved['proposals'])} new hot set(s) in {moved['rounds']} rounds; pushes "
            f"covered {moved['share_of_pushes_kept']:.1%} with the first one, "
            f"{moved['share_of_pushes_followed']:.1%} when it is replaced"
        )
    say.append(f"results: {out}")
    console.print("\n".join(say), markup=False, highlight=False, soft_wrap=True)
