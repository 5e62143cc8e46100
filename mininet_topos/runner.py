"""`libra run`: train the same model in several modes on the same topology, and report."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controller.artifacts import Artifact, program_with
from host_stack.errors import BadInput, LibraError
from mininet_topos.errors import EmulationError
from mininet_topos.mode import ModeResult, ModeRun
from mininet_topos.namespace import enter_isolated
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan, make_plan
from mininet_topos.report import write_report
from mininet_topos.summary import summarize
from mininet_topos.tools import NETWORK_TOOLS, require_tools
from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError
from workloads.training import open_workload
from workloads.workload import Workload

MIN_DESCRIPTORS = 256
MAX_DESCRIPTORS = 65536


def run(options: RunOptions, say: Callable[[str], None]) -> tuple[dict[str, Any], Path]:
    """Run every mode; return the contents of run.json and the folder with the results.

    Continues inside an emulation of its own, see `enter_isolated`.
    """
    enter_isolated()
    require_tools(*NETWORK_TOOLS)
    allow_descriptors()
    for fault in options.uncertain_faults:
        say(
            f"warning: fault {fault.as_given} may not happen: with --consistency "
            f"{options.consistency} there may be fewer rounds than steps"
        )
    artifact = Artifact.load(program_with(options.lanes))
    artifact.require_current()
    workload = open_workload(
        options.framework,
        options.dataset,
        str(options.model),
        seed=options.seed,
        workers=options.workers,
        batch_size=options.batch,
    )
    plan = make_plan(options, workload, artifact)
    started = datetime.now(UTC).astimezone()
    folder = results_folder(options.out, started)
    if options.target == "soft":
        precompile(artifact, say)
    say(
        f"{options.dataset} · {options.model} · {workload.model.num_keys:,} keys, of them "
        f"{plan.hot_keys:,} hot ({plan.heat.coverage(plan.hot_keys):.0%} of sampled "
        f"updates) · F = {plan.fraction_bits} · results in {folder}"
    )
    try:
        results = run_modes(options, workload, plan, artifact, folder)
    except LibraError:
        say(f"logs: {folder}")
        raise
    summary = summarize(started, options, workload, plan, artifact, results)
    (folder / "run.json").write_text(json.dumps(summary, indent=2) + "\n")
    write_report(summary, folder)
    point_latest(options.out, folder)
    return summary, folder


def precompile(artifact: Artifact, say: Callable[[str], None]) -> None:
    """Compile the switch program into the embedded switch's cache, so that it starts at once.

    A P4Runtime client waits ten seconds for a pipeline; a slow machine may need longer.
    """
    say("loading the switch program (the first time it is compiled, which takes some seconds)")
    try:
        DataPlane.load(artifact.device_config).close()
    except SoftSwitchError as error:
        raise EmulationError(str(error)) from error


def allow_descriptors() -> None:
    """Raise the limit of open files to what is allowed; `EmulationError` if that is too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MIN_DESCRIPTORS:
        raise EmulationError(
            f"only {hard} files may be open, {MIN_DESCRIPTORS} are needed: raise it with ulimit -n"
        )
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_modes(
    options: RunOptions, workload: Workload, plan: Plan, artifact: Artifact, folder: Path
) -> dict[str, ModeResult]:
    """Run the modes one after the other, with a progress bar each."""
    results = {}
    with Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeElapsedColumn(),
    ) as progress:
        for mode in options.modes:
            bar = progress.add_task(mode, total=options.rounds)
            run_ = ModeRun(mode, options, plan, artifact, folder / mode)
            results[mode] = run_.run(
                workload.model.num_keys,
                lambda rounds, bar=bar: progress.update(bar, completed=rounds),  # type: ignore[misc]
            )
    return results


def results_folder(out: Path, started: datetime) -> Path:
    """A new folder `out/<time>`, numbered if there is one already.

    Raises `BadInput` if `out` is no folder and cannot be made one.
    """
    name = started.strftime("%Y%m%d-%H%M%S")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for attempt in range(1000):
            folder = out / (name if not attempt else f"{name}-{attempt}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder.resolve()
    except OSError as error:
        raise BadInput(f"results cannot be written to {out}: {error.strerror}") from error
    raise BadInput(f"{out / name} and a thousand folders beside it exist")


def point_latest(out: Path, folder: Path) -> None:
    """Let `out/latest` point to a folder of results."""
    temporary = out / f".latest-{os.getpid()}"
    temporary.symlink_to(folder.name)
    temporary.replace(out / "latest")
