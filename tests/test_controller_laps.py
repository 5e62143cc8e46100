"""Laps: the port and the group by which a Tofino reads rows."""

from __future__ import annotations

from pathlib import Path

import finsy as fy
import pytest

from controller.artifacts import Artifact
from controller.laps import Laps
from controller.tables import Attachment, Membership

P4INFO = """
pkg_info { arch: "tna" }
tables {
  preamble { id: 33554433 name: "LibraIngress.laps" alias: "laps" }
  match_fields { id: 1 name: "md.job_slot" bitwidth: 2 match_type: EXACT }
  action_refs { id: 16777217 }
  size: 4
}
actions {
  preamble { id: 16777217 name: "LibraIngress.lap_at" alias: "lap_at" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "group" bitwidth: 16 }
}
"""


def membership(port: int) -> Membership:
    """A job in slot 2 whose only worker is at a device port."""
    return Membership(
        job=7,
        epoch=1,
        fraction_bits=40,
        slot=2,
        row_base=0,
        rows=64,
        workers=[Attachment("10.0.0.2", "02:00:00:00:00:02", port)],
        server=Attachment("10.0.0.1", "02:00:00:00:00:01", 0),
        group="239.0.0.1",
        group_id=1,
    )


@pytest.mark.parametrize(("worker", "recirculation"), [(0, 68), (63, 68), (128, 196), (447, 452)])
def test_entries(tmp_path: Path, worker: int, recirculation: int) -> None:
    """Rows are read in the pipe of the workers; copies carry another replication id."""
    path = tmp_path / "p4info.txtpb"
    path.write_text(P4INFO)
    schema = fy.P4Schema(path)
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


def test_v1model_programs_have_none(tmp_path: Path) -> None:
    """They copy by a clone session."""
    path = tmp_path / "p4info.txtpb"
    path.write_text(Artifact.load().p4info)
    assert not Laps.has_program(fy.P4Schema(path))
