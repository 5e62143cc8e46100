"""Laps: the port and the group by which a Tofino reads rows."""

from __future__ import annotations

from pathlib import Path

import finsy as fy
import pytest

from controller.artifacts import Artifact
from controller.laps import Laps, update_ports
from controller.tables import Attachment, Membership

P4INFO = """
pkg_info { arch: "tna" }
tables {
  preamble { id: 33554433 name: "LibraIngress.laps" alias: "laps" }
  match_fields { id: 1 name: "md.job_slot" bitwidth: 2 match_type: EXACT }
  action_refs { id: 16777217 }
  size: 4
}
tables {
  preamble { id: 33554434 name: "LibraIngress.pipes" alias: "pipes" }
  match_fields { id: 1 name: "md.job_slot" bitwidth: 2 match_type: EXACT }
  match_fields { id: 2 name: "standard_metadata.ingress_port" bitwidth: 9 match_type: EXACT }
  action_refs { id: 16777218 }
  size: 16
}
actions {
  preamble { id: 16777217 name: "LibraIngress.lap_at" alias: "lap_at" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "group" bitwidth: 16 }
}
actions {
  preamble { id: 16777218 name: "LibraIngress.read_in" alias: "read_in" }
  params { id: 1 name: "port" bitwidth: 9 }
}
"""


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


@pytest.fixture
def schema(tmp_path: Path) -> fy.P4Schema:
    """A program with these tables."""
    path = tmp_path / "p4info.txtpb"
    path.write_text(P4INFO)
    return fy.P4Schema(path)


@pytest.mark.parametrize(("worker", "recirculation"), [(0, 68), (63, 68), (128, 196), (447, 452)])
def test_entries(schema: fy.P4Schema, worker: int, recirculation: int) -> None:
    """Rows are read in the pipe of the workers; copies carry another replication id."""
    assert Laps.has_program(schema)
    group, entry = (each.encode(schema) for each in Laps(membership(worker)).entries())
    multicast = group.packet_replication_engine_entry.multicast_group_entry
    assert multicast.multicast_group_id == 0xF002
    assert [(r.egress_port, r.instance) for r in multicast.replicas] == [(recirculation, 1)]
    table = entry.table_entry
    assert table.match[0].exact.value == b"\x02"
    port, number = (param.value for param in table.action.action.params)
    assert int.from_bytes(port, "big") == recirculation
    assert int.from_bytes(number, "big") == 0xF002


def test_a_drain_visits_every_pipe_that_has_workers(schema: fy.P4Schema) -> None:
    """It begins in the first one; each leads to the next, and the last one leads nowhere."""
    entries = Laps(membership(260, 0, 131, 5, 256)).entries()
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
    ("server", "workers", "ports"),
    [
        (0, [1, 2], set()),
        (0, [1, 128], {196}),
        (300, [1, 128, 130], {68, 196}),
        (300, [256], set()),
    ],
)
def test_updates_close_rounds_in_every_pipe(
    server: int, workers: list[int], ports: set[int]
) -> None:
    """Their own pipe has seen them already; copies go to the others with workers."""
    assert update_ports(server, workers) == ports


def test_v1model_programs_have_none(tmp_path: Path) -> None:
    """They copy by a clone session."""
    path = tmp_path / "p4info.txtpb"
    path.write_text(Artifact.load().p4info)
    assert not Laps.has_program(fy.P4Schema(path))
