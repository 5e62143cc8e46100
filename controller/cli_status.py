"""`libra status`: how a job stands, as its controller knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from controller.cli_connection import AsJson, Controller, Tls, address_of, checked, print_json
from controller.cli_watch import Watch, repeated, shown
from controller.jobapi.ask import JobStatus, read_status
from host_stack.fixedpoint import ESCAPING_SUM, VANISHING_SUM, IntArray
from host_stack.standing import Standing

BAR = 40
"""Characters of the longest bar of a histogram."""

OCTAVES = 8
"""Powers of two in a line of it."""


def status(
    job: Annotated[int, typer.Option("--job", "-j", help="Number of the job.")] = 1,
    watch: Watch = None,
    controller: Controller = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Tell how a job stands: round, epoch, switch, packets, scale; live with --watch."""
    address = address_of(controller, tls)
    number = checked(job, "job")
    if as_json:
        repeated(lambda: print_json(status_fields(read_status(address, number))), watch)
    else:
        shown(lambda: Text("\n".join(status_lines(read_status(address, number)))), watch)


def status_fields(found: JobStatus) -> dict[str, Any]:
    """A status for programs; `scale` is that of docs/run-json.md."""
    standing = found.standing
    return {
        "schema": 1,
        "epoch": found.epoch,
        "round": found.round,
        "fraction_bits": found.fraction_bits,
        "placement": found.version,
        "hot_keys": found.hot_keys,
        "switch": found.switch,
        "reasons": found.reasons,
        "changes": [{"epoch": epoch, "reason": reason} for epoch, reason in found.changes],
        "reported_s_ago": None if standing is None else found.reported_s_ago,
        "goodput_bps": None if standing is None else standing.goodput_bps,
        "scale": found.scale_fields(),
    }


def status_lines(found: JobStatus) -> Iterator[str]:
    """A status for people."""
    yield f"round {found.round}, epoch {found.epoch}"
    yield f"F = {found.fraction_bits}, placement {found.version}"
    yield f"switch {found.switch}, {found.hot_keys:,} hot keys"
    for epoch, reason in found.changes:
        yield f"  epoch {epoch}: {reason}"
    for reason, packets in sorted(found.reasons.items()):
        if packets:
            yield f"{reason:>14} {packets:,}"
    if found.standing is not None:
        yield from _standing_lines(found.standing, found.reported_s_ago)
        if found.scale is not None:
            yield from histogram_lines(found.standing.exponents, found.fraction_bits)
            yield found.scale.told()


def _standing_lines(standing: Standing, reported_s_ago: float) -> Iterator[str]:
    yield (
        f"{standing.goodput_bps / 1e6:.2f} Mbit/s of gradients over the last rounds "
        f"(told {reported_s_ago:.1f} s ago)"
    )
    if standing.gradients:
        share = standing.escaped / standing.gradients
        yield f"{standing.escaped:,} of {standing.gradients:,} gradients escaped ({share:.2%})"


def histogram_lines(exponents: IntArray, fraction_bits: int) -> Iterator[str]:
    """Magnitudes of sampled gradients (int64[256] by exponent), and what F makes of them."""
    groups = exponents[1:255]  # neither 0 nor Inf and NaN
    groups = np.pad(groups, (0, -len(groups) % OCTAVES)).reshape(-1, OCTAVES).sum(axis=1)
    most = max(1, int(groups.max()))
    for at in np.flatnonzero(groups):
        low = 1 + int(at) * OCTAVES
        bar = "#" * max(1, round(BAR * int(groups[at]) / most))
        share = groups[at] / groups.sum()
        name = f"2^{low - 127}..2^{low - 127 + OCTAVES}"
        yield f"{name:>14} {share:7.2%} {bar}{_fate(low, fraction_bits)}"


def _fate(low: int, fraction_bits: int) -> str:
    """What becomes of gradients with exponents from `low` on."""
    high = low + OCTAVES - 1
    if low + fraction_bits > ESCAPING_SUM:
        return " escape"
    if high + fraction_bits > ESCAPING_SUM:
        return " partly escape"
    if high + fraction_bits <= VANISHING_SUM:
        return " count as 0"
    if low + fraction_bits <= VANISHING_SUM:
        return " partly count as 0"
    return ""
