"""Targets: device configurations byte for byte, ports, and what a target allows."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.artifacts import Artifact
from controller.daemon.controller import Controller
from controller.daemon.store import Store
from controller.inventory import Inventory, LinkSpec, SwitchSpec
from controller.targets import EMULATED, TARGETS, find_target
from controller.targets.ports import TOFINO, TOFINO2
from controller.targets.rack import check_racks
from controller.targets.tofino import P4RT, P4RT2, STRATUM, STRATUM2, Tofino
from controller.targets.tofino_output import Profile, TofinoProgram
from controller.targets.v1model import SOFT
from host_stack.errors import BadInput, LayoutMismatch
from tests.host_support import LAYOUT
from tests.tofino_output import P4INFO, write_compiled, write_output

ARTIFACT = Artifact("libra", b'{"program":""}', "", LAYOUT, "p4c", "00")
NARROW = dataclasses.replace(LAYOUT, lanes=16)


@pytest.fixture
def program(tmp_path: Path) -> TofinoProgram:
    """A compiled program, read from the compiler's output."""
    return TofinoProgram.read(write_output(tmp_path / "out"), "tofino", NARROW)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize("name", list(EMULATED))
def test_v1model_targets_take_the_same_program(name: str) -> None:
    """Both switches run the bmv2 JSON as it is."""
    target = find_target(name)
    assert target.name == name
    assert target.device_config(ARTIFACT) == ARTIFACT.device_config


@pytest.mark.parametrize("name", ["", "x", "SOFT", "soft ", "tofino"])
def test_an_unknown_target(name: str) -> None:
    """The error shows what was given and lists those that exist."""
    with pytest.raises(BadInput) as caught:
        find_target(name)
    known = "soft, bmv2, tofino-stratum, tofino-p4rt, tofino2-stratum, tofino2-p4rt"
    assert str(caught.value) == f"unknown target {name!r}; known are {known}"


def test_the_output_of_the_compiler(program: TofinoProgram) -> None:
    """The .conf file says which files belong together, wherever the folder is now."""
    assert program == TofinoProgram(
        name="tofino",
        p4_name="libra_tna",
        chip=TOFINO,
        p4info=P4INFO,
        layout=NARROW,
        bfrt_info=b'{"b":2}',
        profiles=(Profile("pipe", b'{"c":1}', b"\x00\xff\x01", (0, 1)),),
    )


def test_stratum_takes_a_pipeline_config(program: TofinoProgram) -> None:
    """Field by field as its bf.proto has them; the packed pipes come last."""
    profile = (
        field(1, b"pipe") + field(2, b'{"c":1}') + field(3, b"\x00\xff\x01") + field(4, b"\x00\x01")
    )
    expected = field(1, b"libra_tna") + field(2, b'{"b":2}') + field(3, profile)
    assert STRATUM.device_config(program) == expected


def test_bf_switchd_takes_chunks(program: TofinoProgram) -> None:
    """Name, binary, context, pipeline and bf-rt.json, each behind its little-endian length."""
    data = (
        b"\x09\x00\x00\x00libra_tna"
        b"\x03\x00\x00\x00\x00\xff\x01"
        b'\x07\x00\x00\x00{"c":1}'
        b"\x04\x00\x00\x00pipe"
        b'\x07\x00\x00\x00{"b":2}'
    )
    assert P4RT.device_config(program) == b"\x08\x01" + field(3, data)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=3, max_size=3))
def test_chunks_can_be_taken_apart_again(contents: list[bytes]) -> None:
    """Whatever the files hold, lengths lead from one to the next, to the end."""
    binary, context, bfrt = contents
    program = TofinoProgram(
        "t", "p", TOFINO, "", NARROW, bfrt, (Profile("pipe", context, binary, (0,)),)
    )
    config = P4RT.pack(program)
    data = config[config.index(b"\x1a") :]
    at = 1
    while data[at] & 0x80:  # the length of field 3 is a varint
        at += 1
    at += 1
    found = []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    assert found == [b"p", binary, context, b"pipe", bfrt]


def test_bf_switchd_takes_one_pipeline(program: TofinoProgram) -> None:
    """A chip whose pipes run different programs has no form there."""
    two = dataclasses.replace(program, profiles=program.profiles * 2)
    with pytest.raises(BadInput, match="takes one alone"):
        P4RT.device_config(two)
    assert STRATUM.device_config(two).count(b"\x00\xff\x01") == 2


@pytest.mark.parametrize("target", [STRATUM2, P4RT2])
def test_a_program_of_the_other_chip_is_refused(program: TofinoProgram, target: Tofino) -> None:
    """Before it reaches the switch; its own program has the same form as the other chip's."""
    words = f"program tofino is for Tofino 1, and target {target.name} is Tofino 2"
    with pytest.raises(BadInput, match=words):
        target.device_config(program)
    own = dataclasses.replace(program, chip=TOFINO2)
    before = find_target(target.name.replace("tofino2", "tofino"))
    assert target.device_config(own) == before.device_config(program)
    with pytest.raises(BadInput, match="is for Tofino 2, and target"):
        before.device_config(own)


@pytest.mark.parametrize("arch", ["", "psa", "v1model"])
def test_a_program_of_another_architecture(tmp_path: Path, arch: str) -> None:
    """Its P4Info says what it is for."""
    folder = write_output(tmp_path / "out")
    (folder / "p4info.txtpb").write_text(f'pkg_info {{ arch: "{arch}" }}\n')
    with pytest.raises(BadInput, match=f"architecture '{arch}': known are tna, t2na"):
        TofinoProgram.read(folder, "tofino", NARROW)
    (folder / "p4info.txtpb").write_text("pkg_info {")
    with pytest.raises(BadInput, match="is no P4Info"):
        TofinoProgram.read(folder, "tofino", NARROW)


def test_programs_of_another_back_end_are_refused(program: TofinoProgram) -> None:
    """Neither kind of switch is sent the other's program."""
    with pytest.raises(BadInput, match="compile it with `make p4`"):
        SOFT.device_config(program)
    for target in (STRATUM, P4RT):
        with pytest.raises(BadInput, match="compile one with `make tofino`"):
            target.device_config(ARTIFACT)


@pytest.mark.parametrize("name", ["tofino", "tofino2"])
def test_a_program_of_a_tofino_elsewhere(name: str) -> None:
    """An inventory that names the program alone has the target of the embedded switch."""
    with pytest.raises(BadInput, match=f"target to {name}-stratum or {name}-p4rt"):
        SOFT.load(name)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"program-name": ""}, "is no name"),
        ({"bfrt-config": "none.json"}, "none.json is not in"),
        ({"bfrt-config": 7}, "is no name"),
        ({"p4_pipelines": []}, "names no pipeline"),
        ({"p4_pipelines": [{}]}, "pipe_scope"),
        ({"p4_pipelines": [{"pipe_scope": [4]}]}, "allowed are pipes 0 to 3"),
        ({"p4_pipelines": [{"pipe_scope": [True]}]}, "allowed are pipes 0 to 3"),
        ({"p4_pipelines": 3}, "not iterable"),
    ],
)
def test_a_broken_output_folder(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(BadInput, match=why):
        TofinoProgram.read(write_output(tmp_path / "out", **changes), "tofino", NARROW)


def test_an_output_folder_that_is_not_there(tmp_path: Path) -> None:
    """The error says how to make one."""
    with pytest.raises(BadInput, match="compile the program with `make tofino`"):
        TofinoProgram.read(tmp_path, "tofino", NARROW)
    with pytest.raises(BadInput, match="record of a Tofino program"):
        TofinoProgram.load("tofino", tmp_path)


def test_an_output_folder_of_another_compilation(tmp_path: Path) -> None:
    """A record that was taken back after a trial with other lanes is not believed."""
    folder = write_compiled(tmp_path)
    assert TofinoProgram.load("tofino", folder).layout.lanes == 16
    p4info = folder / "tofino" / "p4info.txtpb"
    p4info.write_text(p4info.read_text() + "# of another compilation\n")
    with pytest.raises(BadInput, match=r"is not the output that tofino\.json records"):
        TofinoProgram.load("tofino", folder)


def test_a_path_leads_nowhere_else(tmp_path: Path) -> None:
    """Files outside of the folder are not read, whatever the .conf file says."""
    folder = write_output(tmp_path / "out", **{"bfrt-config": "../secret.json"})
    (tmp_path / "secret.json").write_text("{}")
    with pytest.raises(BadInput, match=r"`\.\.` is not allowed"):
        TofinoProgram.read(folder, "tofino", NARROW)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=list(TARGETS))
def test_jobs_and_workers_that_fit(target: object) -> None:
    """The program of a target has so many slots and ranks."""
    assert target in TARGETS.values()
    allowed = target.capabilities
    for slot, workers in ((0, 1), (allowed.slots, 1), (1, 0), (1, allowed.workers + 1)):
        with pytest.raises(BadInput, match="allows 1 to"):
            target.check_job(slot, workers)
    target.check_job(allowed.slots - 1, allowed.workers)


def test_a_mixed_rack_is_refused(program: TofinoProgram) -> None:
    """Both switches and both values are named; other racks do not matter."""
    programs = {"s1": ARTIFACT, "s2": program, "s3": program}
    check_racks({"s1": "a", "s2": "b", "s3": "b"}, programs)
    check_racks({"s1": "", "s2": "", "s3": "b"}, programs)
    with pytest.raises(LayoutMismatch) as caught:
        check_racks({"s1": "a", "s2": "b", "s3": "a"}, programs)
    assert str(caught.value).startswith("lanes is 32 at s1 and 16 at s3 of rack a: run programs")


def test_the_controller_refuses_a_mixed_rack(tmp_path: Path) -> None:
    """Switches of 16 and of 32 lanes are served side by side, but not in one rack."""
    switches = tuple(
        SwitchSpec(f"s{i}", f"127.0.0.1:{i}", f"10.0.{i}.254", f"02:00:00:00:0{i}:fe", program=each)
        for i, each in enumerate(["libra", "libra16"], start=1)
    )
    link = LinkSpec(("s1:10", "s2:10"))
    store = Store(tmp_path / "state.sqlite")
    controller = Controller(Inventory(switches, (), (link,)), store)
    assert [controller.layout_of(name).lanes for name in ("s1", "s2")] == [32, 16]
    mixed = tuple(dataclasses.replace(switch, rack="r") for switch in switches)
    with pytest.raises(LayoutMismatch, match="lanes is 32 at s1 and 16 at s2 of rack r"):
        Controller(Inventory(mixed, (), (link,)), store)
