"""The commands that talk to a running switch: `softswitch fault`, `link` and `stats`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from softswitch.control import ControlClient
from softswitch.errors import InvalidArgument
from softswitch.faults import FaultRule, read_port

Switch = Annotated[
    Path,
    typer.Option("--switch", "-s", metavar="SOCKET", help="The --control SOCKET of the switch."),
]


class State(StrEnum):
    """What a link can be."""

    UP = "up"
    DOWN = "down"


def fault(
    rules: Annotated[
        list[str], typer.Argument(metavar="PORT:DIRECTION:FAULTS…", help="For example 1:tx:loss=1.")
    ],
    switch: Switch,
) -> None:
    """Change the faults of links of a running switch; packets are numbered from 0 again.

    FAULTS replace those of before; `loss=0` alone ends them.
    """
    client = ControlClient(switch)
    for rule in [parse_rule(text) for text in rules]:
        client.set_faults(rule)


def link(
    port: Annotated[str, typer.Argument(metavar="PORT", help="A port's number, or all.")],
    state: Annotated[State, typer.Argument(help="Cut the link or mend it.")],
    switch: Switch,
) -> None:
    """Cut the link of a port of a running switch, with what is on it, or mend it."""
    try:
        number = read_port(port)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None
    ControlClient(switch).set_link_state(number, up=state is State.UP)


def stats(
    switch: Switch,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object of JSON.")] = False,
) -> None:
    """Print the counters of a running switch: ports, drops by reason, links with faults."""
    found = ControlClient(switch).stats()
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in _lines(found):
        typer.echo(line)


def parse_rule(text: str) -> FaultRule:
    """Read a rule of the command line; wrong ones are wrong usage."""
    try:
        return FaultRule.parse(text)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None


def _lines(found: dict[str, Any]) -> list[str]:
    if not found["pipeline"]:
        return ["no pipeline yet"]
    lines = [
        f"port {item.pop('port')} {item.pop('ifname')}  {_numbers(item)}" for item in found["ports"]
    ]
    lines.append(f"drops  {_numbers(found['drops']) or 'none'}")
    if any(found["parser_errors"].values()):
        lines.append(f"parser errors  {_numbers(found['parser_errors'])}")
    if found["capture"]:
        lines.append(f"capture  {_numbers(found['capture']) or 'empty'}")
    for item in found["links"]:
        name = f"link {item.pop('port')} {item.pop('direction')} ({item.pop('faults')})"
        lines.append(f"{name}  {_numbers(item) or 'unused'}")
    return lines


def _numbers(item: dict[str, int]) -> str:
    return " ".join(f"{name} {value}" for name, value in item.items() if value)
