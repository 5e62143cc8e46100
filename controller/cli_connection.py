"""Where the commands of an operator find the controller: options, variables, defaults."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.json_format import MessageToDict

from controller.jobapi.channel import CALL_S, ControllerAddress
from controller.jobapi.operator import Operator
from host_stack.errors import BadInput

DEFAULT_ADDRESS = "127.0.0.1:9560"
"""Where a controller listens unless told otherwise."""

SOCKETS = "libra-*/job.sock"
"""Where emulations put the sockets of their controllers, within the folder for temporary files."""

Controller = Annotated[
    str | None,
    typer.Option(
        "--controller",
        envvar="LIBRA_CONTROLLER",
        metavar="ADDRESS",
        help=f"HOST:PORT or unix:PATH; default: the newest run on this machine, or "
        f"{DEFAULT_ADDRESS}.",
    ),
]
Tls = Annotated[
    Path | None,
    typer.Option(
        "--tls",
        envvar="LIBRA_TLS",
        metavar="FOLDER",
        help="Folder with ca.pem and, as the controller wants it, cert.pem and key.pem, or token; "
        "needed by a controller with TLS.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs; docs/cli.md has the fields.")]
JobOption = Annotated[int, typer.Option("--job", "-j", help="Number of the job.")]


def newest_socket() -> Path:
    """The socket of the emulation that was started last; `BadInput` if none runs.

    What a killed one has left is passed over.
    """
    found = Path(tempfile.gettempdir()).glob(SOCKETS)
    for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        if _is_served(path):
            return path
    raise BadInput("no emulation is running here; name a controller by --controller")


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(CALL_S)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def address_of(controller: str | None, tls: Path | None) -> ControllerAddress:
    """The controller that is meant; `BadInput` if it cannot be one."""
    if controller is None:
        try:
            return ControllerAddress.at_socket(newest_socket())
        except BadInput:
            controller = DEFAULT_ADDRESS
    return ControllerAddress.parse(controller, tls)


def operator_of(controller: str | None, tls: Path | None) -> Operator:
    """A client of the controller that is meant."""
    return Operator(address_of(controller, tls), CALL_S)


def checked(number: int, name: str) -> int:
    """A number that fits a field of the API; `BadInput` if it does not."""
    if not 0 <= number < 1 << 32:
        raise BadInput(f"{name} {number}: allowed are 0 to {(1 << 32) - 1}")
    return number


def fields_of(message: Any) -> Any:
    """A message for JSON: all fields under the names of the .proto file."""
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def print_json(value: Any) -> None:
    """Write one JSON value."""
    typer.echo(json.dumps(value, indent=2))
