"""Table entries of the switch program."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import finsy as fy
import pytest

from controller.artifacts import PROGRAMS, Artifact
from controller.tables import Attachment, Forward, LaneAlign, Local, Membership
from host_stack.errors import BadInput
from host_stack.fixedpoint import MAX_FRACTION_BITS, MIN_FRACTION_BITS, Alignment, alignment
from tests.host_support import LAYOUT

SERVER = Attachment("10.0.0.1", "02:00:0a:00:00:01", 1)
WORKERS = tuple(
    Attachment(f"10.0.0.{2 + rank}", f"02:00:0a:00:00:{2 + rank:02x}", 2 + rank)
    for rank in range(3)
)
MEMBERSHIP = Membership(
    job=7, epoch=5, fraction_bits=40, slot=1, row_base=0, rows=16, workers=WORKERS,
    server=SERVER, group="239.19.52.2", group_id=1,
)  # fmt: skip


def fields(entry: Any) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(match, action's name, its arguments) of a table entry."""
    return dict(entry.match or {}), entry.action.name, dict(entry.action.args)


@pytest.mark.parametrize("fraction_bits", [MIN_FRACTION_BITS, 0, 23, 40, MAX_FRACTION_BITS])
def test_align_entries_are_the_alignment(fraction_bits: int) -> None:
    """Every exponent that does not escape, with the action and shift of the reference."""
    lanes, slot = 3, 9
    entries = list(LaneAlign(slot, fraction_bits, lanes).entries())
    names = {Alignment.LEFT: "left", Alignment.RIGHT: "right", Alignment.ZERO: "zero"}
    seen = set()
    for entry in entries:
        assert isinstance(entry, fy.P4TableEntry)
        match, action, arguments = fields(entry)
        prefix = entry.table_id.removesuffix("exponents")
        kind, shift = alignment(match["exponent"], fraction_bits)
        assert match["job_slot"] == slot
        assert action == prefix + names[kind]
        shifts = kind in (Alignment.LEFT, Alignment.RIGHT)
        assert arguments == ({"shift": shift} if shifts else {})
        seen.add((prefix, match["exponent"]))
    assert len(entries) == len(seen)
    assert seen == {
        (f"LibraIngress.align{lane}.", exponent)
        for lane in range(lanes)
        for exponent in range(256)
        if alignment(exponent, fraction_bits)[0] is not Alignment.ESCAPE
    }


def test_to_escape_is_the_default_of_the_tables() -> None:
    """What has no entry escapes, in every lane of every compiled program."""
    for name in PROGRAMS:
        program = Artifact.load(name)
        tables = json.loads(program.device_config)["pipelines"][0]["tables"]
        actions = {
            each["id"]: each["name"] for each in json.loads(program.device_config)["actions"]
        }
        found = [
            actions[table["default_entry"]["action_id"]]
            for table in tables
            if table["name"].endswith(".exponents")
        ]
        lanes = program.layout.lanes
        assert found == [f"LibraIngress.align{lane}.escapes" for lane in range(lanes)]


def test_a_job_and_its_members() -> None:
    """The job's entry, a member for each rank at its port and address, and the server."""
    job, *members = [
        fields(entry) for entry in (MEMBERSHIP.job_entry(), *MEMBERSHIP.member_entries())
    ]
    assert job[0] == {"hdr.libra.job": 7}
    assert job[2] == {
        "slot": 1, "epoch": 5, "row_base": 0, "row_mask": 15, "float_bias": 87,
        "server": "10.0.0.1",
    }  # fmt: skip
    for rank, (worker, member) in enumerate(zip(WORKERS, members[:-1], strict=True)):
        assert member[0] == {
            "hdr.libra.job": 7,
            "hdr.libra.worker": rank,
            "standard_metadata.ingress_port": worker.port,
            "hdr.ipv4.src": worker.address,
        }
        assert member[1:] == ("LibraIngress.membership.worker", {"rank": rank})
    match, action, arguments = members[-1]
    assert (match["hdr.libra.worker"], match["hdr.ipv4.src"]) == (0xFFFF, SERVER.address)
    assert (action, arguments) == ("LibraIngress.membership.server", {})


@pytest.mark.parametrize("fraction_bits", [MIN_FRACTION_BITS, 0, 127 - 8, MAX_FRACTION_BITS])
def test_the_exponent_of_finished_sums(fraction_bits: int) -> None:
    """The bias is 127 - F in the eight bits of an exponent."""
    job = replace(MEMBERSHIP, fraction_bits=fraction_bits).job_entry()
    assert fields(job)[2]["float_bias"] == (127 - fraction_bits) % 256


def test_the_group_of_updates() -> None:
    """It reaches every worker's port, and only the server at its own port may send to it."""
    group, entry = MEMBERSHIP.multicast().entries()
    assert isinstance(group, fy.P4MulticastGroupEntry)
    assert (group.multicast_group_id, tuple(group.replicas)) == (1, (2, 3, 4))
    match, action, arguments = fields(entry)
    assert match == {
        "hdr.ipv4.dst": "239.19.52.2",
        "hdr.ipv4.src": SERVER.address,
        "standard_metadata.ingress_port": SERVER.port,
    }
    assert (action, arguments) == ("LibraIngress.forward.replicate", {"group": 1})


def test_routes() -> None:
    """A host route for each host, to its port, with the switch's own address as the source."""
    hosts = [SERVER, *WORKERS]
    for host, entry in zip(hosts, Forward("02:00:0a:00:00:fe", hosts).entries(), strict=True):
        match, action, arguments = fields(entry)
        assert match == {"hdr.ipv4.dst": f"{host.address}/32"}
        assert action == "LibraIngress.forward.forward"
        assert arguments == {"port": host.port, "next_hop": host.mac, "own": "02:00:0a:00:00:fe"}


def test_the_switch_itself() -> None:
    """Its address, and the session that copies a DRAIN."""
    (local,) = Local("10.0.0.254").entries()
    session = Local.session()
    assert fields(local)[0] == {"hdr.ipv4.dst": "10.0.0.254"}
    assert isinstance(session, fy.P4CloneSessionEntry)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"slot": 15},
        {"rows": 1},
        {"rows": 8192},
        {"rows": 4096, "row_base": 4096},
        {"workers": WORKERS[:1] * 128},
    ],
)
def test_jobs_that_fit(changed: dict[str, Any]) -> None:
    """The limits themselves are allowed."""
    replace(MEMBERSHIP, **changed).check(LAYOUT)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"slot": 0}, "slot 0: allowed are 1 to 15"),
        ({"slot": 16}, "slot 16: allowed are 1 to 15"),
        ({"workers": ()}, "0 workers: allowed are 1 to 128"),
        ({"workers": WORKERS[:1] * 129}, "129 workers: allowed are 1 to 128"),
        ({"fraction_bits": 127}, "F = 127: allowed are -64 to 126"),
        ({"rows": 0}, "power-of-two block"),
        ({"rows": 12}, "power-of-two block"),
        ({"rows": -16}, "power-of-two block"),
        ({"rows": 16, "row_base": 8}, "power-of-two block"),
        ({"rows": 16, "row_base": -16}, "-16"),
        ({"rows": 16384}, "rows 0 to 16383: the switch has 8192"),
        ({"rows": 16, "row_base": 8192}, "rows 8192 to 8207: the switch has 8192"),
    ],
)
def test_jobs_that_do_not_fit(changed: dict[str, Any], message: str) -> None:
    """Each is refused with what was given and what is allowed."""
    with pytest.raises(BadInput, match=message):
        replace(MEMBERSHIP, **changed).check(LAYOUT)
