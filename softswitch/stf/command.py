"""The command `softswitch stf` and `python -m softswitch.stf`."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from softswitch.compiler import find_compiler
from softswitch.errors import SoftSwitchError
from softswitch.stf.programs import P4Compiler, find_cases
from softswitch.stf.report import as_json, summary, table
from softswitch.stf.runner import Outcome, Result, run_all


def stf(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of .stf tests, or one .stf file.")
    ],
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.")
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Look into the folder's folders too.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, metavar="N", help="Tests at once [one per processor]."),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="Most time for a test.")
    ] = 300.0,
    p4c: Annotated[
        str, typer.Option(metavar="COMMAND", help="Compiler for tests without a .json file.")
    ] = "p4c-bm2-ss",
    compiled: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep compiled programs here, and use them if newer."),
    ] = None,
    from_source: Annotated[
        bool, typer.Option(help="Compile the .p4 file even where there is a .json file.")
    ] = False,
    cache_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the C compiler's output is kept.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the tests that passed too.")
    ] = False,
) -> None:
    """Run the STF packet tests of a folder on the switch, in memory and without privileges.

    A test is NAME.stf beside its program, NAME.json (compiled) or NAME.p4. Programs that are not
    for v1model are skipped. The exit code is 1 when a test fails; a refused program is no failure.
    """
    find_compiler()
    cases = find_cases(folder, recursive=recursive, prefer_source=from_source)
    with ExitStack() as stack:
        if compiled is None:
            compiled = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="softswitch-")))
        compiler = P4Compiler(p4c, compiled)
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        results: list[Result] = []
        with progress:
            task = progress.add_task("STF tests", total=len(cases))
            for result in run_all(
                cases,
                compiler,
                jobs=jobs or len(os.sched_getaffinity(0)),
                timeout_s=timeout_s,
                cache_dir=cache_dir,
            ):
                results.append(result)
                progress.advance(task)
        if json_path is not None:
            _write(json_path, json.dumps(as_json(results, str(folder), compiler), indent=2))
    shown = table(results, with_passed=verbose)
    console = Console()
    if shown.row_count:
        console.print(shown)
    console.print(summary(results), highlight=False)
    if any(r.outcome is Outcome.FAILED for r in results):
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise SoftSwitchError(f"cannot write {path}: {error.strerror}") from None
