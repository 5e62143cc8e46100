"""Which jobs a controller gives to a Tofino: racks, lanes, and how many there is room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from controller.artifacts import BUILD_DIR, PROGRAMS, STEP_PROGRAM, Artifact
from controller.daemon.controller import Ask, Controller
from controller.daemon.job_record import JobRecord, Placed
from controller.daemon.store import Store
from controller.errors import NoRoom
from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from controller.placing.blocks import Block
from controller.targets import find_target
from controller.targets.tofino import Tofino
from controller.targets.tofino_output import TofinoProgram
from controller.targets.v1model import V1Model
from host_stack.errors import BadInput, LayoutMismatch
from host_stack.placement import Placement, heat_based
from tests.controller_process import host_mac
from tests.tofino_output import write_compiled

KEYS = np.arange(100, dtype=np.uint64)


@pytest.fixture(autouse=True)
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of the compiler is there."""
    folder = write_compiled(tmp_path / "build")
    monkeypatch.setattr(
        Tofino, "load", lambda _target, program: TofinoProgram.load(program, folder)
    )


def inventory(*programs: str, hosts: int = 4, rack: str = "") -> Inventory:
    """Switches s0, s1, … with hosts 10.0.0.1 … at the first, 10.0.1.1 … at the second and so on.

    Those of the program `tofino` are Tofinos.
    """
    switches = tuple(
        SwitchSpec(
            f"s{at}",
            f"127.0.0.1:{9000 + at}",
            f"10.1.{at}.254",
            host_mac(200 + at),
            target="tofino-p4rt" if program == "tofino" else "soft",
            program=program,
            rack=rack,
        )
        for at, program in enumerate(programs)
    )
    ports = [128 * (n // 60) + 1 + n % 60 for n in range(hosts)]
    found = tuple(
        HostSpec(f"h{at}-{n}", f"10.0.{at}.{n + 1}", host_mac(512 * at + port), f"s{at}", port)
        for at in range(len(programs))
        for n, port in enumerate(ports)
    )
    links = (LinkSpec(("s0:63", "s1:63")),) if len(programs) > 1 else ()
    return Inventory(switches, found, links)


def ask(job: int, server: str, workers: list[str], placement: Placement | None = None) -> Ask:
    """A job."""
    record = JobRecord(
        job=job,
        fraction_bits=30,
        num_keys=1000,
        workers=tuple(workers),
        server=server,
        group=f"239.1.1.{job}",
        scheduler=(server, 9700),
        switch="",
        placed=Placed.JOB,
        slot=0,
        block=Block(0, 1),
        group_id=0,
    )
    return Ask(record, 0, placement)


@contextmanager
def controller(path: Path, inventory_: Inventory) -> Iterator[Controller]:
    """A controller with its state in a folder, whose switches are not reached."""
    store = Store(path / "state.sqlite")
    try:
        yield Controller(inventory_, store)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("programs", "chain"),
    [(("libra16", "libra16"), ["s1"]), (("tofino", "libra16"), []), (("libra16", "tofino"), [])],
)
def test_a_tofino_sums_for_all_racks_or_for_none(
    programs: tuple[str, ...], chain: list[str], tmp_path: Path
) -> None:
    """A drain with hops would be refused there, so none is asked for.

    Workers of other racks are summed where their packets pass: at the switch of the server.
    """
    with controller(tmp_path, inventory(*programs)) as found:
        workers = ["10.0.0.2", "10.0.1.1", "10.0.1.2"]
        job = found.create(ask(1, "10.0.0.1", workers))
        assert [seat.switch for seat in job.record.chain] == chain
        membership = found._wanted["s0"].membership(job.record, 1, 30)
        assert membership.elsewhere == ((1, 2) if chain else ())
        assert [worker.port for worker in membership.workers] == [2, 63, 63]
        job.take("the job begins")
        for name in ("s0", *chain):
            job.settle(name)
        assert job.current is not None
        assert job.current.chain == (("10.1.1.254",) if chain else ())


@pytest.mark.parametrize("programs", [("tofino", "libra16"), ("libra16", "tofino")])
def test_a_job_of_racks_is_not_taken_over_by_a_tofino(
    programs: tuple[str, ...], tmp_path: Path
) -> None:
    """The inventory has another target for a switch that took part in drains of racks."""
    with controller(tmp_path, inventory("libra16", "libra16")) as found:
        found.create(ask(1, "10.0.0.1", ["10.0.0.2", "10.0.1.1"]))
    with (
        pytest.raises(BadInput, match=r"job 1 is summed on s1, s0: .* delete the job"),
        controller(tmp_path, inventory(*programs)),
    ):
        raise AssertionError("the job was taken over")


def test_placements_are_of_the_lanes_of_their_switch(tmp_path: Path) -> None:
    """One controller serves switches of 32 and of 16 lanes, each with its own description."""
    with controller(tmp_path, inventory("libra", "tofino")) as found:
        wide, narrow = (heat_based(KEYS, found.layout_of(name)) for name in ("s0", "s1"))
        jobs = [
            found.create(ask(1, "10.0.0.1", ["10.0.0.2"], wide)),
            found.create(ask(2, "10.0.1.1", ["10.0.1.2"], narrow)),
        ]
        told = [found.describe_for_hosts(job) for job in jobs]
        assert [job.layout.lanes for job in told] == [32, 16]
        assert [job.drain_digits for job in told] == [False, True]
        assert [job.record.block.rows for job in jobs] == [4, 8]
        for server, worker, other in (
            ("10.0.0.1", "10.0.0.3", narrow),
            ("10.0.1.1", "10.0.1.3", wide),
        ):
            with pytest.raises(LayoutMismatch, match="lanes is"):
                found.create(ask(3, server, [worker], other))
        assert set(found.jobs) == {1, 2}


def test_a_switch_with_other_lanes_does_not_take_a_placement_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inventory names another program than the one that the job was placed for.

    Another version of the same program does.
    """
    with controller(tmp_path, inventory("libra")) as found:
        found.create(ask(1, "10.0.0.1", ["10.0.0.2"], heat_based(KEYS, found.layout_of("s0"))))
    newer = Artifact.load()
    newer = replace(newer, layout=replace(newer.layout, program=newer.layout.program + 1))
    with monkeypatch.context() as patched:
        patched.setattr(V1Model, "load", lambda _target, _program: newer)
        with controller(tmp_path, inventory("libra")) as found:
            assert found.describe_for_hosts(found.job(1)).layout == newer.layout
    with (
        pytest.raises(LayoutMismatch, match="lanes is 16 here and 32 at the placement of job 1"),
        controller(tmp_path, inventory("tofino")),
    ):
        raise AssertionError("the job was taken over")


def test_a_mixed_rack_is_refused(tmp_path: Path) -> None:
    """A 32-lane switch beside a Tofino."""
    with (
        pytest.raises(LayoutMismatch, match="lanes is 32 at s0 and 16 at s1 of rack r"),
        controller(tmp_path, inventory("libra", "tofino", rack="r")),
    ):
        raise AssertionError("the rack was taken")


def test_three_jobs_of_64_workers(tmp_path: Path) -> None:
    """A stage holds no more windows; what is too much is refused with what is allowed."""
    with controller(tmp_path, inventory("tofino", hosts=66)) as found:
        workers = [f"10.0.0.{n}" for n in range(2, 67)]
        with pytest.raises(BadInput, match="65 workers: tofino-p4rt allows 1 to 64"):
            found.create(ask(1, "10.0.0.1", workers))
        for number in (1, 2, 3):
            found.create(ask(number, "10.0.0.1", workers[:64]))
        assert [job.record.slot for job in found.jobs.values()] == [1, 2, 3]
        with pytest.raises(BadInput, match="65 workers"):
            found.declare(3, tuple(workers))
        with pytest.raises(NoRoom, match="s0 has 3 jobs, which is the most; delete one"):
            found.create(ask(4, "10.0.0.1", workers[:1]))
        found.delete(2)
        assert found.create(ask(4, "10.0.0.1", workers[:1])).record.slot == 2


@pytest.mark.parametrize(
    ("target", "program"),
    [
        *(("soft", program) for program in (*PROGRAMS, STEP_PROGRAM)),
        *((target, "tofino") for target in ("tofino-stratum", "tofino-p4rt")),
    ],
)
def test_limits_are_those_of_the_program(target: str, program: str) -> None:
    """Slots and workers of a target are what the description of its programs has room for."""
    text = (BUILD_DIR / f"{program}.p4info.txtpb").read_text()
    p4info = text_format.Parse(text, p4i.P4Info())
    sizes = {table.preamble.alias: table.size for table in p4info.tables}
    allowed = find_target(target).capabilities
    assert sizes["jobs"] == allowed.slots
    assert sizes["members"] == allowed.slots * allowed.workers
    (seen,) = [each.size for each in p4info.registers if each.preamble.name.endswith("window.seen")]
    assert seen == allowed.slots * allowed.workers * 256
