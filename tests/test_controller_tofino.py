"""The controller drives a Tofino: what of a job it writes, changes, finds again and takes away.

The switch is a server with the committed description of the program and a Tofino's restrictions.
Its contents are read by another client and decoded by that description.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from finsy.proto import p4r

from controller.errors import NotNow
from controller.jobapi.operator import Operator, spec_of
from controller.targets.ports import Chip
from host_stack.errors import BadInput
from host_stack.fixedpoint import split_digits, to_fixed
from host_stack.job import Job
from host_stack.layout import SERVER_RANK
from host_stack.placement import heat_based
from host_stack.wire import REASONS_PER_SLOT, Reason
from softswitch.p4runtime.server import P4RuntimeServer
from tests.controller_process import WAIT_S, ControllerProcess, host_mac, socket_path
from tests.job_in_memory import LAYOUT, SWITCH, make_job, two_cells
from tests.p4rt_support import Client
from tests.tofino_lab import (
    HOSTS,
    LANES,
    SERVER,
    SERVER_PORT,
    Held,
    chip_of,
    entry,
    number,
    read_held,
    tofino_controller,
    update,
    write_lab,
)
from tests.tofino_output import read_p4info
from tests.tofino_server import tofino_server

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

F = 33
SIXTEEN = replace(LAYOUT, lanes=LANES, program=4)
PLACEMENT = two_cells(np.arange(100, dtype=np.uint64), SIXTEEN)
WORKERS = [address for address in HOSTS if address != SERVER]
ELECTION_ID = 10
"""Finsy's: with a lower one, nobody would be primary."""

LEADS_BACK = {"tofino": 68, "tofino2": 6}
"""The port of a pipe that leads back into it, by chip."""

OWN_MAC = 0x0200000000FE


@pytest.fixture(params=["tofino-stratum", "tofino-p4rt", "tofino2-p4rt"])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a target: both servers, and the other chip behind one of them."""
    return str(request.param)


@pytest.fixture
def chip(kind: str) -> Chip:
    """The chip of that target."""
    return chip_of(kind)


@pytest.fixture
def server(kind: str, tmp_path: Path) -> Iterator[P4RuntimeServer]:
    """A switch of that kind, and the inventory that has it."""
    with tofino_server(kind) as running:
        write_lab(tmp_path, kind, running.address)
        yield running


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path for the controller's socket."""
    with socket_path() as path:
        yield path


def job(number_: int = 1, workers: list[str] = WORKERS) -> Job:
    """A job of the lab."""
    made = make_job(len(workers), 4000, F, 9, SIXTEEN)
    group = f"239.1.1.{number_}"
    return replace(made, job=number_, workers=tuple(workers), group=group)


def begin(process: ControllerProcess, *jobs: Job) -> Operator:
    """Create jobs and wait until they are installed."""
    process.event("switch-ready")
    operator = Operator(process.address, WAIT_S)
    for each in jobs or (job(),):
        operator.create(spec_of(each), PLACEMENT)
        process.event("epoch", job=each.job)
    return operator


# -- what should be there --------------------------------------------------------------------


def mac(address: str) -> int:
    """Of a host."""
    return int(host_mac(HOSTS[address]).replace(":", ""), 16)


def network() -> Held:
    """What all jobs share."""
    attached = "LibraIngress.sources.attached"
    forward = "LibraIngress.forward.forward"
    return Held(
        {
            "LibraIngress.sources.sources": {
                (number(SWITCH),): (attached, {"port": 511}),
                **{(number(host),): (attached, {"port": port}) for host, port in HOSTS.items()},
            },
            "LibraIngress.locals": {(number(SWITCH),): ("LibraIngress.local", {})},
            "LibraIngress.forward.routes": {
                ((number(host), 32),): (
                    forward,
                    {"port": port, "next_hop": mac(host), "own": OWN_MAC},
                )
                for host, port in HOSTS.items()
            },
        }
    )


def add_job(
    held: Held,
    chip: Chip,
    job_: Job,
    *,
    slot: int,
    epoch: int,
    row_base: int,
    group: int,
    bits: int = F,
) -> None:
    """Add what a job needs, but for its exponents and the number of the group of its DRAINs."""
    members = held.tables.setdefault("LibraIngress.membership.members", {})
    for rank, worker in enumerate(job_.workers):
        key = (job_.job, rank, HOSTS[worker], number(worker))
        members[key] = ("LibraIngress.membership.worker", {"rank": rank})
    key = (job_.job, SERVER_RANK, SERVER_PORT, number(SERVER))
    members[key] = ("LibraIngress.membership.server", {})
    held.tables.setdefault("LibraIngress.membership.jobs", {})[(job_.job,)] = (
        "LibraIngress.membership.job",
        {
            "slot": slot,
            "epoch": epoch,
            "row_base": row_base,
            "row_mask": 15,
            "float_bias": (127 - bits) & 0xFF,
            "server": number(SERVER),
        },
    )
    held.tables.setdefault("LibraIngress.forward.groups", {})[
        number(job_.group), number(SERVER), SERVER_PORT
    ] = ("LibraIngress.forward.replicate", {"group": group})
    pipes = sorted({HOSTS[worker] // 128 for worker in job_.workers})
    recirculation = [128 * pipe + LEADS_BACK[chip.name] for pipe in pipes]
    away = {port for port in recirculation if port // 128 != SERVER_PORT // 128}
    held.groups[group] = {(port, 0) for port in away | {HOSTS[each] for each in job_.workers}}
    if len(recirculation) > 1:
        held.tables.setdefault("LibraIngress.pipes", {})
    for port, following in pairwise(recirculation):
        held.tables["LibraIngress.pipes"][slot, port] = (
            "LibraIngress.read_in",
            {"port": following},
        )


def check_laps(held: Held, chip: Chip, slot: int, pipe: int) -> None:
    """A DRAIN goes to the first pipe, copied by a group of its own; take both out of `held`."""
    first = 128 * pipe + LEADS_BACK[chip.name]
    action, params = held.tables["LibraIngress.laps"].pop((slot,))
    assert (action, params["port"]) == ("LibraIngress.lap_at", first)
    assert held.groups.pop(params["group"]) == {(first, 1)}
    if not held.tables["LibraIngress.laps"]:
        del held.tables["LibraIngress.laps"]


def check_exponents(held: Held, scales: dict[int, int]) -> None:
    """By what each lane's table holds, gradients become the reference's digits; take it out.

    `scales` is F by slot.
    """
    exponents, significands = np.meshgrid(np.arange(256), [0, 1, 0x2AAAAA, 0x7FFFFF])
    bits = (exponents << 23 | significands).ravel().astype(np.uint32)
    for lane in range(LANES):
        table = held.tables.pop(f"LibraIngress.align{lane}.exponents")
        assert {slot for slot, _ in table} == set(scales)
        assert {action for action, _ in table.values()} == {f"LibraIngress.align{lane}.shifted"}
        for slot, fraction_bits in scales.items():
            shifts = {
                exponent: params["by"]
                for (at, exponent), (_, params) in table.items()
                if at == slot
            }
            assert set(shifts) == set(range(256))
            wanted, escapes = to_fixed(bits.view(np.float32), fraction_bits)
            d1, d0, missed = aligned(bits, shifts)
            assert missed.tolist() == escapes.tolist()
            high, low = split_digits(wanted)
            assert (d1[~escapes].tolist(), d0[~escapes].tolist()) == (
                high[~escapes].tolist(),
                low[~escapes].tolist(),
            )


def aligned(bits: np.ndarray, shifts: dict[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What p4src/include/step_align.p4 makes of the bits of positive gradients.

    Returns d1, d0 and which escape.
    """
    exponents = (bits >> 23).astype(np.int64)
    by = np.array([shifts[int(exponent)] for exponent in exponents])
    significand = (bits & 0x7FFFFF | 1 << 23).astype(np.int64)
    steps, whole_bytes = by & 7, by >> 3
    shifted = (significand << steps) & 0xFFFFFFFF
    magnitude = np.where(whole_bytes < 3, shifted >> (24 - 8 * np.minimum(whole_bytes, 3)), 0)
    magnitude = np.where(
        whole_bytes >= 3, shifted << (8 * (np.clip(whole_bytes, 3, 6) - 3)), magnitude
    )
    return magnitude >> 24, magnitude & 0xFFFFFF, by == 64


def test_what_a_job_needs(
    chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """Members, laps through three pipes, look-up tables and groups; two jobs side by side."""
    one, other = job(1), job(2, WORKERS[:2])
    with tofino_controller(tmp_path, socket) as process:
        operator = begin(process, one, other)
        described = operator.describe(1)
        held = read_held(server.address, chip)
        check_exponents(held, {1: F, 2: F})
        check_laps(held, chip, 1, 0)
        check_laps(held, chip, 2, 1)
        wanted = network()
        add_job(wanted, chip, one, slot=1, epoch=1, row_base=0, group=1)
        add_job(wanted, chip, other, slot=2, epoch=1, row_base=16, group=2)
        assert held == wanted
        # The hosts learn what the switch runs, and that it cannot round.
        told = json.loads(described.job_file)
        assert told["layout"] == {"lanes": 16, "rows": 8192, "window": 256, "program": 4}
        assert told["drain_digits"] is True
        with pytest.raises(NotNow, match="no server of job 1 is connected, and drains"):
            operator.dump(1, 0, 1)
        with pytest.raises(BadInput, match="P4Runtime reads no registers of this target"):
            operator.dump(1, 0, 1, windows=True)


def test_what_changes_is_written(
    chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """Another F, other keys, other workers, and the end of a job beside another one."""
    one, other = job(1), job(2, WORKERS[:2])
    with tofino_controller(tmp_path, socket) as process:
        operator = begin(process, one, other)
        operator.change(1, None, 30)
        process.event("epoch", job=1)
        wanted = network()
        add_job(wanted, chip, one, slot=1, epoch=2, row_base=0, group=1, bits=30)
        add_job(wanted, chip, other, slot=2, epoch=1, row_base=16, group=2)
        held = read_held(server.address, chip)
        check_exponents(held, {1: 30, 2: F})
        check_laps(held, chip, 1, 0)
        check_laps(held, chip, 2, 1)
        assert held == wanted

        operator.change(1, heat_based(np.arange(50, 150, dtype=np.uint64), SIXTEEN), None)
        process.event("epoch", job=1)
        operator.declare(1, WORKERS[2:3])
        process.event("epoch", job=1)
        wanted = network()
        add_job(wanted, chip, job(1, WORKERS[2:3]), slot=1, epoch=4, row_base=0, group=1, bits=30)
        add_job(wanted, chip, other, slot=2, epoch=1, row_base=16, group=2)
        held = read_held(server.address, chip)
        check_exponents(held, {1: 30, 2: F})
        check_laps(held, chip, 1, 2)
        check_laps(held, chip, 2, 1)
        assert held == wanted

        operator.delete(1)
        wanted = network()
        add_job(wanted, chip, other, slot=2, epoch=1, row_base=16, group=2)
        operator.declare(2, WORKERS[1:3])
        process.event("epoch", job=2)  # what was asked before is done by then
        wanted = network()
        add_job(wanted, chip, job(2, WORKERS[1:3]), slot=2, epoch=2, row_base=16, group=2)
        held = read_held(server.address, chip)
        check_exponents(held, {2: F})
        check_laps(held, chip, 2, 1)
        assert held == wanted

        operator.delete(2)
        await_held(server.address, chip, network())


def await_held(address: str, chip: Chip, wanted: Held) -> None:
    """Wait until a switch holds what it should."""
    deadline = time.monotonic() + WAIT_S
    while (held := read_held(address, chip)) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert held == wanted


def test_an_empty_switch_is_set_up_again(
    kind: str, chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """After the server was restarted, in another epoch; the device configuration comes again."""
    with tofino_controller(tmp_path, socket) as process:
        begin(process)
        server.stop(0.0)
        process.event("switch-down")
        with tofino_server(kind, server.address):
            process.event("epoch", job=1, text="epoch 2: the switch was empty")
            held = read_held(server.address, chip)
    check_exponents(held, {1: F})
    check_laps(held, chip, 1, 0)
    wanted = network()
    add_job(wanted, chip, job(), slot=1, epoch=2, row_base=0, group=1)
    assert held == wanted


def test_a_restarted_controller_leaves_a_switch_alone(
    chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """But for its groups, which such servers cannot be trusted to tell: these are written again."""
    with tofino_controller(tmp_path, socket) as process:
        begin(process)
    before = read_held(server.address, chip)
    with tofino_controller(tmp_path, socket) as process:
        assert process.event("provisioned")["text"] == "2 entities written"
        assert process.event("epoch")["text"] == "epoch 1: the controller was restarted"
        assert read_held(server.address, chip) == before


def test_a_restarted_controller_mends_what_is_wrong(
    chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """An entry that was lost, one that nobody wants, and one that says something else."""
    with tofino_controller(tmp_path, socket) as process:
        begin(process)
    whole = read_held(server.address, chip)
    first, second, third = (128 * pipe + LEADS_BACK[chip.name] for pipe in range(3))
    pipes = entry("LibraIngress.pipes", (1, first), "LibraIngress.read_in", (second,), chip)
    astray = entry("LibraIngress.pipes", (1, third), "LibraIngress.read_in", (first,), chip)
    shift = entry(
        "LibraIngress.align3.exponents", (1, 127), "LibraIngress.align3.shifted", (1,), chip
    )
    with Client(server.address, ELECTION_ID) as client:
        client.arbitrate()
        client.write(update("DELETE", pipes), update("INSERT", astray), update("MODIFY", shift))
    assert read_held(server.address, chip) != whole
    with tofino_controller(tmp_path, socket) as process:
        text = process.event("epoch")["text"]
        assert text == "epoch 2: the switch did not hold what it should"
        held = read_held(server.address, chip)
    whole.tables["LibraIngress.membership.jobs"][(1,)][1]["epoch"] = 2
    assert held == whole


def test_packets_are_counted(
    chip: Chip, server: P4RuntimeServer, tmp_path: Path, socket: Path
) -> None:
    """`libra stats` finds the counters of the program by its description."""
    with tofino_controller(tmp_path, socket) as process:
        begin(process)
    (reasons,) = read_p4info(chip).counters
    count = p4r.CounterEntry(
        counter_id=reasons.preamble.id,
        index=p4r.Index(index=REASONS_PER_SLOT + Reason.AGGREGATED),
        data=p4r.CounterData(packet_count=7),
    )
    with Client(server.address, ELECTION_ID) as client:
        client.arbitrate()
        client.write(p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(counter_entry=count)))
    with tofino_controller(tmp_path, socket) as process:
        process.event("switch-ready")
        counts = Operator(process.address, WAIT_S).stats().counts
    assert [(each.job, each.reason, each.packets) for each in counts] == [(1, "aggregated", 7)]
