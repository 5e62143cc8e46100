"""The console command `softswitch`: run a switch, or compile a program ahead of time."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from finsy.proto import p4i
from google.protobuf import text_format
from typer.exceptions import TyperException

from softswitch import control_cli
from softswitch.capture import DEFAULT_MAX_BYTES, CaptureOptions
from softswitch.compiler import find_compiler
from softswitch.control import ControlServer
from softswitch.dataplane import DataPlane
from softswitch.errors import BadProgram, InvalidArgument, PortError, SoftSwitchError
from softswitch.faults import Direction, LinkFaults, expand, read_fault_file
from softswitch.p4runtime.server import DEFAULT_ADDRESS, P4RuntimeServer
from softswitch.p4runtime.tls import TlsFiles
from softswitch.ports import MAX_PACKET_BYTES, MAX_PORT
from softswitch.stf.command import stf
from softswitch.wiring import Wiring

LOGGER = logging.getLogger("softswitch")

app = typer.Typer(
    help="A fast v1model switch: runs the bmv2 JSON that p4c makes and serves P4Runtime.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"softswitch {version('libra-ina')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    grpc: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve P4Runtime; port 0 picks one.")
    ] = DEFAULT_ADDRESS,
    interface: Annotated[
        list[str] | None,
        typer.Option(
            "--interface",
            "-i",
            metavar="PORT@IFNAME",
            help="Attach a network interface to a port, for example 1@veth1. May be repeated.",
        ),
    ] = None,
    device_id: Annotated[
        int,
        typer.Option(
            min=1, max=2**64 - 1, metavar="N", help="Device id that controllers have to give."
        ),
    ] = 1,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="bmv2 JSON to run at once; needs --p4info."),
    ] = None,
    p4info_path: Annotated[
        Path | None,
        typer.Option("--p4info", metavar="FILE", help="P4Info of the program, in text format."),
    ] = None,
    cpu_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_PORT,
            metavar="PORT",
            help="Port that leads to the controller (packet I/O).",
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PORT:DIRECTION:FAULTS",
            help="Faults of a link, for example 1:tx:loss=0.05,delay=5ms,seed=7; PORT may be all, "
            "DIRECTION rx, tx or both. May be repeated.",
        ),
    ] = None,
    fault_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file with faults of links.")
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(
            metavar="SOCKET",
            help="Serve `softswitch fault`, `link` and `stats` on this Unix-domain socket.",
        ),
    ] = None,
    capture: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record what passes each port in DIR/port-N.pcapng."),
    ] = None,
    capture_size: Annotated[
        int,
        typer.Option(min=1, metavar="BYTES", help="Largest size of a port's capture."),
    ] = DEFAULT_MAX_BYTES,
    capture_snaplen: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_PACKET_BYTES,
            metavar="BYTES",
            help="Record at most so much of a packet; 0 records all.",
        ),
    ] = 0,
    cache_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where compiled programs are kept.")
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="Serve TLS only, with this certificate; needs --tls-key."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Private key of --tls-cert, unencrypted.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM",
            help="Serve only clients with a certificate of this authority (mutual TLS).",
        ),
    ] = None,
    log_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the log here, not to stderr.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run a switch until SIGINT or SIGTERM.

    When it serves, one line of JSON on stdout says so: {"event": "ready", "grpc": "HOST:PORT"}.
    Without --json the pipeline comes from a controller (SetForwardingPipelineConfig).
    Interfaces need the capability CAP_NET_RAW; programs need a C compiler on this machine.
    """
    ports = _parse_ports(interface or [], cpu_port)
    faults = _parse_faults(fault or [], fault_file, ports)
    _check_address(grpc)
    if (json_path is None) != (p4info_path is None):
        raise typer.BadParameter("--json and --p4info go together; give both or neither")
    tls = _tls_files(tls_cert, tls_key, tls_client_ca)
    _check_interfaces(ports)
    find_compiler()
    options = None
    if capture is not None:
        options = CaptureOptions.create(capture, capture_size, capture_snaplen)
    wiring = Wiring(ports, faults, options)
    _start_log(log_file, verbose=verbose)
    server = P4RuntimeServer(
        grpc,
        device_id=device_id,
        ports=ports,
        cpu_port=cpu_port,
        cache_dir=cache_dir,
        prepare=wiring.prepare,
        tls=tls,
    )
    try:
        if json_path is not None and p4info_path is not None:
            server.commit(_read_p4info(p4info_path), _read(json_path))
        server.start()
        with ControlServer(control, wiring) if control else nullcontext():
            _serve(server)
    finally:
        server.stop()


for command in (control_cli.fault, control_cli.link, control_cli.stats):
    app.command()(command)


@app.command(name="compile")
def compile_program(
    program: Annotated[Path, typer.Argument(metavar="PROG.json", help="bmv2 JSON made by p4c.")],
    cache_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where compiled programs are kept.")
    ] = None,
) -> None:
    """Compile a program into the cache, so that a switch starts at once with it."""
    source = _read(program)
    started = time.perf_counter()
    dataplane = DataPlane.load(source, cache_dir=cache_dir)
    seconds = time.perf_counter() - started
    dataplane.close()
    typer.echo(f"{dataplane.library} {seconds:.1f} s")


app.command()(stf)


def main(before: Sequence[str] = ()) -> None:
    """Run the command; errors are one line on stderr with exit code 1, or 2 for wrong usage.

    `before` goes before the arguments of the process.
    """
    sys.exit(_run(typer.main.get_command(app).main, [*before, *sys.argv[1:]]))


def _run(command: Callable[..., object], args: list[str]) -> int:
    try:
        code = command(args, prog_name="softswitch", standalone_mode=False)
    except TyperException as error:
        return _fail(f"{error.format_message()} (see softswitch --help)", error.exit_code)
    except SoftSwitchError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _fail(str(error), 1)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"softswitch: {' '.join(message.split())}", file=sys.stderr)
    return code


def _start_log(path: Path | None, *, verbose: bool) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if path is not None:
        handler = logging.FileHandler(path)
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[handler],
        force=True,
    )


def _parse_ports(interfaces: list[str], cpu_port: int | None) -> dict[int, str]:
    ports: dict[int, str] = {}
    for item in interfaces:
        number, at, name = item.partition("@")
        if not at or not name or not number.isascii() or not number.isdigit():
            raise typer.BadParameter(f"-i {item}: write PORT@IFNAME, for example 1@veth1")
        port = int(number)
        if port > MAX_PORT:
            raise typer.BadParameter(f"-i {item}: ports are 0 to {MAX_PORT}")
        if port in ports or port == cpu_port:
            raise typer.BadParameter(f"-i {item}: port {port} is already taken")
        if name in ports.values():
            raise typer.BadParameter(f"-i {item}: interface {name} is already attached")
        ports[port] = name
    return ports


def _parse_faults(
    rules: list[str], path: Path | None, ports: dict[int, str]
) -> dict[tuple[int, Direction], LinkFaults]:
    """Return the faults of a file, replaced by those of the command line."""
    from_file = read_fault_file(path) if path is not None else []
    try:
        return expand([*from_file, *map(control_cli.parse_rule, rules)], ports)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from None


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise typer.BadParameter(f"--grpc {address}: write HOST:PORT, for example 127.0.0.1:9559")


def _tls_files(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """Fail now if the files cannot be used, not when the first client connects."""
    if (cert is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key go together; give both or neither")
    if cert is None or key is None:
        if client_ca is not None:
            raise typer.BadParameter("--tls-client-ca needs --tls-cert and --tls-key")
        return None
    tls = TlsFiles(cert, key, client_ca)
    tls.credentials()
    return tls


def _check_interfaces(ports: dict[int, str]) -> None:
    """Fail now, not when a controller sends a pipeline."""
    if not ports:
        return
    for port, name in ports.items():
        try:
            socket.if_nametoindex(name)
        except OSError:
            known = ", ".join(found for _, found in socket.if_nameindex())
            raise PortError(f"port {port}: no interface {name!r}; there are {known}") from None
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        raise PortError(
            "interfaces need the capability CAP_NET_RAW: run as root or inside a network "
            "namespace of your own (unshare -rn)"
        ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadProgram(f"cannot read {path}: {error.strerror}") from None


def _read_p4info(path: Path) -> p4i.P4Info:
    try:
        return text_format.Parse(_read(path).decode(), p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise BadProgram(f"{path} is not a P4Info in text format: {error}") from None


def _serve(server: P4RuntimeServer) -> None:
    stop = threading.Event()

    def on_signal(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)  # a second one does not wait for a clean end

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    LOGGER.info("serving P4Runtime on %s", server.address)
    print(json.dumps({"event": "ready", "grpc": server.address}), flush=True)
    stop.wait()
    LOGGER.info("stopping")


if __name__ == "__main__":
    main()
