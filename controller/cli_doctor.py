"""`libra doctor`: what this machine lacks, and what to do about each; and `libra completion`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from controller.cli_connection import AsJson, print_json
from controller.doctor import Check, examine
from host_stack.errors import BadInput

SCHEMA = 1
SHELLS = ("bash", "zsh", "fish")


def doctor(
    as_json: AsJson = False,
) -> None:
    """Look at what this machine has, and say what to do about what is missing.

    Exit code 0 if `libra run` has what it needs, 1 if not. What only some commands need is shown
    and does not count.
    """
    checks = list(examine())
    ok = all(check.ok for check in checks if check.required)
    if as_json:
        print_json({"schema": SCHEMA, "ok": ok, "checks": [asdict(check) for check in checks]})
    else:
        show(Console(), checks)
    raise typer.Exit(0 if ok else 1)


def show(console: Console, checks: list[Check]) -> None:
    """A line for each requirement, and below what to do."""
    table = Table("", "requirement", "found", "needed for")
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]no[/]" if check.required else "[yellow]–[/]"
        table.add_row(mark, check.name, escape(check.found), escape(check.needed_for))
    console.print(table)
    for check in checks:
        if not check.ok:
            console.print(f"{check.name}: {check.fix}", markup=False, soft_wrap=True)


def completion(
    shell: Annotated[str, typer.Argument(help=f"{', '.join(SHELLS)}.")] = "bash",
    as_json: AsJson = False,
) -> None:
    """Print a script that completes the words of `libra` in a shell.

    For bash: eval "$(libra completion bash)", in ~/.bashrc for every session.
    """
    if shell not in SHELLS:
        raise BadInput(f"shell {shell!r}: allowed are {', '.join(SHELLS)}")
    script = get_completion_script(prog_name="libra", complete_var="_LIBRA_COMPLETE", shell=shell)
    if as_json:
        print_json({"schema": SCHEMA, "shell": shell, "script": script})
    else:
        typer.echo(script)
