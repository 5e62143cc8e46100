"""`libra controller`: the daemon that owns the switches of an inventory and their jobs."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import secrets
import sys
from pathlib import Path
from typing import Annotated

import grpc
import typer

from controller.cli_connection import DEFAULT_ADDRESS, AsJson, print_json
from controller.daemon.access import Access
from controller.daemon.event_log import log_event
from controller.daemon.run import Options, run
from controller.daemon.serving import Endpoint
from host_stack import logs
from host_stack.errors import BadInput
from softswitch.errors import BadCertificate
from softswitch.p4runtime.tls import TlsFiles

TOKEN_BYTES = 32


def controller(
    inventory: Annotated[Path, typer.Argument(help="File of switches, hosts and links.")],
    state: Annotated[
        Path, typer.Option(help="File that keeps jobs and epochs; made if there is none.")
    ] = Path("controller.sqlite"),
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help=f"HOST:PORT or unix:PATH; may be repeated; default: {DEFAULT_ADDRESS}.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate (PEM); needed to listen beyond this machine.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="Serve only clients with a certificate of this authority (mutual TLS)."),
    ] = None,
    access: Annotated[
        Path | None,
        typer.Option(help="File of clients and their roles; default: all clients are operators."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics there, to everybody."),
    ] = None,
    log_format: Annotated[
        str, typer.Option(help=f"Of its log, on standard output: {', '.join(logs.FORMATS)}.")
    ] = logs.FORMATS[0],
    as_json: Annotated[bool, typer.Option("--json", help="The same as --log-format json.")] = False,
) -> None:
    """Own the switches of an inventory, keep them as their jobs need, and serve the APIs.

    Runs until it is interrupted. State survives: started again, it reads back what the switches
    hold and writes only the difference.
    """
    credentials = _credentials(tls_cert, tls_key, client_ca)
    endpoints = tuple(endpoint(address, credentials) for address in listen or [DEFAULT_ADDRESS])
    known = Access() if access is None else Access.load(access)
    scraped = None if metrics is None else _host_and_port(metrics)
    options = Options(inventory, state, endpoints, access=known, metrics=scraped)
    logs.start("json" if as_json else log_format, "controller", stream=sys.stdout)
    asyncio.run(run(options, log_event))


def token(as_json: AsJson = False) -> None:
    """Make a token for a client of a controller, and its line in the access file."""
    made = secrets.token_urlsafe(TOKEN_BYTES)
    digest = hashlib.sha256(made.encode()).hexdigest()
    if as_json:
        print_json({"schema": 1, "token": made, "token_sha256": digest})
        return
    typer.echo(f"token:        {made}")
    typer.echo(f'token_sha256 = "{digest}"')


def endpoint(address: str, credentials: grpc.ServerCredentials | None) -> Endpoint:
    """Where to listen; `BadInput` if other machines could reach it without TLS."""
    if address.startswith("unix:"):
        return Endpoint(address)
    if credentials is None and not _is_loopback(address):
        raise BadInput(
            f"{address} can be reached from other machines: give --tls-cert and --tls-key, or "
            "listen at 127.0.0.1 or unix:PATH"
        )
    return Endpoint(address, credentials)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 0xFFFF:
        raise BadInput(f"address {address!r}: HOST:PORT is needed, or unix:PATH to listen")
    return host, int(port)


def _is_loopback(address: str) -> bool:
    host, _ = _host_and_port(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _credentials(
    cert: Path | None, key: Path | None, client_ca: Path | None
) -> grpc.ServerCredentials | None:
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise BadInput("--tls-cert and --tls-key go together, and --client-ca needs both")
    try:
        return TlsFiles(cert, key, client_ca).credentials()
    except BadCertificate as error:
        raise BadInput(str(error)) from error
