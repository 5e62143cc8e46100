"""The commands `libra plan …`."""

from __future__ import annotations

import typer

from planner.cli_compare import compare
from planner.cli_from_run import from_run
from planner.cli_share import share_command
from planner.cli_simulate import simulate_command
from planner.cli_topology import topology
from planner.cli_whatif import whatif

app = typer.Typer(
    no_args_is_help=True,
    help="Is the network the bottleneck of a job, and what would remove it?",
)


@app.callback()
def _plan() -> None:
    """Say whether the network is the bottleneck of a job, and what would remove it."""


app.command()(whatif)
app.command("from-run")(from_run)
app.command()(topology)
app.command("simulate")(simulate_command)
app.command()(compare)
app.command("share")(share_command)
