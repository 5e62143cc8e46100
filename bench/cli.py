"""The commands `libra bench …`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import placement as placing
from bench.switch import FULL, QUICK, run
from bench.switch_plots import draw
from controller.artifacts import program_with
from host_stack.errors import BadInput, LibraError
from mininet_topos.namespace import enter_isolated
from mininet_topos.tools import NETWORK_TOOLS, require_tools
from softswitch.errors import SoftSwitchError

app = typer.Typer(no_args_is_help=True, help="Measure, side by side with alternatives.")


@app.callback()
def _bench() -> None:
    """Measure, side by side with alternatives."""


@app.command()
def switch(
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result here.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the result and plots here.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A short form, in a minute.")] = False,
    lanes: Annotated[int, typer.Option(help="Lanes of the program loaded: 16, 32 or 64.")] = 32,
) -> None:
    """Compare the embedded switch with bmv2 and a bare reflector, and measure what costs what.

    All in one run, in network namespaces of its own; needs root. Prints ratios and conditions.
    """
    program = program_with(lanes)
    for path in (json_path, out):
        if path is not None and not path.absolute().parent.is_dir():
            raise BadInput(f"{path}: there is no folder {path.absolute().parent}")
    require_tools(*NETWORK_TOOLS)
    enter_isolated()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="libra-bench-") as logs:
        try:
            record = run(
                program,
                QUICK if quick else FULL,
                Path(logs),
                lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True),
            )
        except SoftSwitchError as error:
            raise LibraError(str(error)) from error
    show(console, record)
    text = json.dumps(record, indent=2) + "\n"
    if json_path is not None:
        json_path.write_text(text)
    if out is not None:
        draw(record, out)
        (out / "switch.json").write_text(text)
        console.print(f"plots: {out}", markup=False, highlight=False)


@app.command()
def placement(
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result here.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, in seconds.")] = False,
) -> None:
    """Measure identifying, placing and packing up to a million hot keys, beside plain Python."""
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise BadInput(f"{json_path}: there is no folder {json_path.absolute().parent}")
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    record = placing.run(placing.QUICK if quick else placing.FULL, say)
    for name, value in record["conditions"].items():
        say(f"  {name}: {value}")
    if json_path is not None:
        json_path.write_text(json.dumps(record, indent=2) + "\n")


def show(console: Console, record: dict[str, Any]) -> None:
    """Print the contenders, the ratios and the conditions."""
    table = Table("", "packets/s", "lowest", "highest", "lost")
    for name, rates in record["contenders"].items():
        table.add_row(
            name,
            f"{rates['packets_per_s']:,.0f}",
            f"{rates['packets_per_s_lowest']:,.0f}",
            f"{rates['packets_per_s_highest']:,.0f}",
            str(rates["lost"]),
        )
    console.print(table)
    for name, key in (("bmv2", "ratio_vs_bmv2"), ("the reflector", "ratio_vs_reflector")):
        value = record[key]
        text = "not measured" if value is None else f"{value:.2f}×"
        console.print(f"against {name}: {text}", highlight=False)
    for name, value in record["conditions"].items():
        console.print(f"  {name}: {value}", markup=False, highlight=False, soft_wrap=True)
