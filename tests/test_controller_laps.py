"""Laps: the port and the group by which a Tofino reads rows."""

from __future__ import annotations

import re
from pathlib import Path

import finsy as fy
import pytest

from controller.artifacts import BUILD_DIR, SOURCE_DIR, Artifact
from controller.laps import Laps, chip_of, update_ports
from controller.provision import group_entities, job_entities, network_entities
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets.ports import TOFINO, TOFINO2, Chip
from controller.targets.tofino import STRATUM
from host_stack.wire import REASONS_PER_SLOT


def membership(*ports: int) -> Membership:
    """A job in slot 2 whose workers are at these device ports."""
    return Membership(
        job=7,
        epoch=1,
        fraction_bits=40,
        slot=2,
        row_base=0,
        rows=64,
        workers=[
            Attachment(f"10.0.0.{rank + 2}", f"02:00:00:00:00:{rank + 2:02x}", port)
            for rank, port in enumerate(ports)
        ],
        server=Attachment("10.0.0.1", "02:00:00:00:00:01", 0),
        group="239.0.0.1",
        group_id=1,
    )


@pytest.fixture(scope="module", params=["tofino", "tofino2"])
def schema(request: pytest.FixtureRequest) -> fy.P4Schema:
    """The program for each chip, as its compiler describes it."""
    return fy.P4Schema(BUILD_DIR / f"{request.param}.p4info.txtpb")


def test_the_description_tells_the_chip() -> None:
    """By the architecture of the program."""
    for chip in (TOFINO, TOFINO2):
        assert chip_of(fy.P4Schema(BUILD_DIR / f"{chip.name}.p4info.txtpb")) == chip


@pytest.mark.parametrize(
    ("chip", "worker", "recirculation"),
    [
        (TOFINO, 0, 68),
        (TOFINO, 63, 68),
        (TOFINO, 128, 196),
        (TOFINO, 447, 452),
        (TOFINO2, 8, 6),
        (TOFINO2, 71, 6),
        (TOFINO2, 136, 134),
        (TOFINO2, 455, 390),
    ],
)
def test_entries(schema: fy.P4Schema, chip: Chip, worker: int, recirculation: int) -> None:
    """Rows are read in the pipe of the workers; copies carry another replication id."""
    group, entry = (each.encode(schema) for each in Laps(chip, membership(worker)).entries())
    multicast = group.packet_replication_engine_entry.multicast_group_entry
    assert multicast.multicast_group_id == 0x7002
    assert [(r.egress_port, r.instance) for r in multicast.replicas] == [(recirculation, 1)]
    table = entry.table_entry
    assert table.match[0].exact.value == b"\x02"
    port, number = (param.value for param in table.action.action.params)
    assert int.from_bytes(port, "big") == recirculation
    assert int.from_bytes(number, "big") == 0x7002


def test_a_drain_visits_every_pipe_that_has_workers(schema: fy.P4Schema) -> None:
    """It begins in the first one; each leads to the next, and the last one leads nowhere."""
    entries = Laps(TOFINO, membership(260, 0, 131, 5, 256)).entries()
    _, first, *others = (each.encode(schema).table_entry for each in entries)

    def number(value: bytes) -> int:
        return int.from_bytes(value, "big")

    assert number(first.action.action.params[0].value) == 68
    hops = [
        (number(e.match[1].exact.value), number(e.action.action.params[0].value)) for e in others
    ]
    assert hops == [(68, 196), (196, 324)]
    assert {e.match[0].exact.value for e in others} == {b"\x02"}


@pytest.mark.parametrize(
    ("chip", "server", "workers", "ports"),
    [
        (TOFINO, 0, [1, 2], set()),
        (TOFINO, 0, [1, 128], {196}),
        (TOFINO, 300, [1, 128, 130], {68, 196}),
        (TOFINO, 300, [256], set()),
        (TOFINO2, 300, [8, 136, 138], {6, 134}),
    ],
)
def test_updates_close_rounds_in_every_pipe(
    chip: Chip, server: int, workers: list[int], ports: set[int]
) -> None:
    """Their own pipe has seen them already; copies go to the others with workers."""
    assert update_ports(chip, server, workers) == ports


@pytest.mark.parametrize(
    ("workers", "copies"), [((5, 9), [5, 9]), ((0, 5), [5]), ((0,), []), ((0, 130), [130, 196])]
)
def test_no_update_goes_back_to_where_it_came_from(
    workers: tuple[int, ...], copies: list[int]
) -> None:
    """A worker may hang at the server's port; on v1model the program drops such a copy."""
    schema = fy.P4Schema(BUILD_DIR / "tofino.p4info.txtpb")
    group, _ = group_entities(schema, membership(*workers).multicast())
    entry = group.encode(schema).packet_replication_engine_entry.multicast_group_entry
    assert [(r.egress_port, r.instance) for r in entry.replicas] == [(port, 0) for port in copies]


def test_all_that_a_job_needs_fits_the_program(schema: fy.P4Schema) -> None:
    """Names, widths and kinds of match are those of the compiled program, in every table."""
    job = membership(128, 5, 262)
    hosts = [job.server, *job.workers]
    forward, local = Forward("02:00:00:00:00:fe", hosts), Local("10.0.0.254")
    entities = [
        *network_entities(schema, forward, local),
        *job_entities(schema, job, 16),
        *group_entities(schema, job.multicast()),
        job.job_entry(),
    ]
    encoded = [entity.encode(schema) for entity in entities]
    names = {table.id: table.name for table in schema.tables}
    written = {names[e.table_entry.table_id] for e in encoded if e.HasField("table_entry")}
    assert written == {
        *(f"LibraIngress.align{lane}.exponents" for lane in range(16)),
        *(f"LibraIngress.{name}" for name in ("laps", "locals", "pipes", "sources.sources")),
        *(f"LibraIngress.forward.{name}" for name in ("groups", "routes")),
        *(f"LibraIngress.membership.{name}" for name in ("jobs", "members")),
    }
    (reasons,) = [each for each in schema.counters if each.name == "LibraIngress.reasons"]
    assert reasons.size == STRATUM.capabilities.slots * REASONS_PER_SLOT


def test_v1model_programs_have_none(tmp_path: Path) -> None:
    """They copy by a clone session."""
    path = tmp_path / "p4info.txtpb"
    path.write_text(Artifact.load().p4info)
    assert chip_of(fy.P4Schema(path)) is None


def test_a_pipe_reads_its_own_cells() -> None:
    """What the egress is to read goes back into the pipe that it came from, never to another."""
    program = (SOURCE_DIR / "libra_tna.p4").read_text()
    actions = re.findall(r"action (\w+)\([^)]*\) \{(.*?)\n    \}", program, re.DOTALL)
    readers = {name: body for name, body in actions if "ACT_READ_" in body}
    assert set(readers) == {"read_low", "read_in", "send"}
    for name, body in readers.items():
        ports = re.findall(r"ucast_egress_port = ([\w.]+);", body)
        assert ports == ["ig_intr_md.ingress_port"], name
