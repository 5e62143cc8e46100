"""`libra status`: how a job stands, as its controller knows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from controller.jobapi.ask import JobStatus, read_status
from host_stack.errors import BadInput

SOCKETS = "libra-*/job.sock"
"""Where emulations put the sockets of their controllers, within the folder for temporary files."""

FEW_ESCAPES = 0.01
"""Up to this share of packets it costs little that they escape."""


def status(
    socket: Annotated[
        Path | None,
        typer.Option(help="Of the job's controller; default: of the run that was started last."),
    ] = None,
    job: Annotated[int, typer.Option(help="Number of the job.")] = 1,
) -> None:
    """Tell how the job of a running emulation stands: epoch, switch, packets by reason."""
    for line in status_lines(read_status(socket or newest_socket(), job)):
        typer.echo(line)


def newest_socket() -> Path:
    """The socket of the emulation that was started last; `BadInput` if none runs."""
    found = list(Path(tempfile.gettempdir()).glob(SOCKETS))
    if not found:
        raise BadInput("no emulation is running here; name the socket of a controller by --socket")
    return max(found, key=lambda path: path.stat().st_mtime)


def status_lines(found: JobStatus) -> Iterator[str]:
    """A status for people."""
    yield f"epoch {found.epoch}, F = {found.fraction_bits}, placement {found.version}"
    yield f"switch {found.switch}, {found.hot_keys:,} hot keys"
    for epoch, reason in found.changes:
        yield f"  epoch {epoch}: {reason}"
    for reason, packets in sorted(found.reasons.items()):
        if packets:
            yield f"{reason:>14} {packets:,}"
    share = escaped_share(found.reasons)
    if share is not None:
        yield f"{share:.2%} of the packets with gradients escaped"
    if share is not None and share > FEW_ESCAPES:
        yield (
            f"F = {found.fraction_bits} is too fine for these gradients: they are summed by the "
            "server, which is right and slow; take a smaller F"
        )


def escaped_share(reasons: dict[str, int]) -> float | None:
    """The share of a job's GRADs that were for the switch and escaped; None before the first."""
    escaped, taken = reasons.get("escaped", 0), reasons.get("aggregated", 0)
    return escaped / (escaped + taken) if escaped + taken else None
