"""What the code generator leaves out: places for temporaries, jumps, copies of headers."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from controller.artifacts import Artifact
from softswitch.codegen import generate, locality
from softswitch.codegen.layout import Layout
from softswitch.codegen.views import find_views
from softswitch.dataplane import DataPlane
from softswitch.load import load_program
from tests.softswitch_json import ProgramBuilder, assign, call, const, field, op

SPEC = field("standard_metadata", "egress_spec")


def header(name: str) -> dict[str, str]:
    """A header as a primitive's argument."""
    return {"type": "header", "value": name}


def sign_program() -> bytes:
    """Out = sign ? -value : value in 16 bits; wide = sign ? 7 : other, and a label of 128 bits."""
    b = ProgramBuilder()
    b.header("in", [["sign", 1, False], ["rest", 7, False], ["value", 16, False]])
    b.header("out", [["value", 16, False], ["choice", 8, False], ["label", 128, False]])
    b.header("temporary", [["v", 16, False], ["w", 8, False], ["x", 128, False]], metadata=True)
    b.deparser = ["out"]
    b.state("start", [b.extract("in")])
    value, choice = field("temporary", "v"), field("temporary", "w")
    b.run("load", [assign(value, field("in", "value")), assign(choice, field("in", "rest"))])
    b.when("negative", op("==", field("in", "sign"), const(1)))
    minus = op("&", op("-", const(0), value), const(0xFFFF))
    b.run("negate", [assign(value, minus), assign(choice, const(7))])
    label = op("|", op("<<", value, const(100)), op("<<", field("in", "value"), const(40)))
    b.run(
        "send",
        [
            call("add_header", header("out")),
            assign(field("out", "value"), value),
            assign(field("out", "choice"), choice),
            assign(field("temporary", "x"), op("|", label, choice)),
            assign(field("out", "label"), field("temporary", "x")),
            assign(SPEC, const(1)),
        ],
    )
    return b.json()


@pytest.mark.compiler
@pytest.mark.parametrize("chunk", [1, 1000])
def test_choices_by_packet_bytes_need_no_jump(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are those of the branches, also where a piece of the pipeline ends between them."""
    monkeypatch.setattr(locality, "CHUNK_COST", chunk)
    source = sign_program()
    assert ("const bool q" in generate(load_program(source))) == (chunk == 1000)
    rng = random.Random(1)
    with DataPlane.load(source, cache_dir=tmp_path) as switch:
        for _ in range(200):
            sign, rest, value = rng.getrandbits(1), rng.getrandbits(7), rng.getrandbits(16)
            [(port, out)] = switch.inject(0, struct.pack(">BH", sign << 7 | rest, value))
            result = -value & 0xFFFF if sign else value
            choice = 7 if sign else rest
            label = (result << 100 | value << 40 | choice) & (1 << 128) - 1
            assert port == 1
            assert out == struct.pack(">HB", result, choice) + label.to_bytes(16, "big")


def test_temporaries_have_no_place_in_the_packets_state() -> None:
    """Nor do constants in a checksum give them one."""
    program = load_program(Artifact.load().device_config)
    assert any(i.kind == "constant" for c in program.calculations for i in c.inputs)
    assert len(Layout(program).locals) > 300


def views_program() -> bytes:
    """`tail` is only read; what is before it shrinks (kind 1), grows (2), is cloned (3) or both."""
    b = ProgramBuilder()
    b.header("head", [["kind", 8, False], ["a", 8, False]])
    b.header("extra", [["bytes", 24, False]])
    b.header("tail", [["x", 4, False], ["y", 20, False], ["z", 40, False]])
    b.deparser = ["extra", "head", "tail"]
    b.state("start", [b.extract("head"), b.extract("tail")])
    kind = field("head", "kind")
    b.run("send", [assign(SPEC, const(1)), assign(field("head", "a"), field("tail", "z"))])
    b.when("shrink", op("==", kind, const(1)))
    b.run("remove", [call("remove_header", header("head"))])
    b.when("grow", op(">", kind, const(1)))
    b.run("add", [call("add_header", header("extra"))])
    b.run("end", [assign(SPEC, const(1))])
    egress = {"pipeline": "egress"}
    original = op("==", field("standard_metadata", "instance_type"), const(0))
    b.when("clone", op("and", original, op("==", kind, const(3))), **egress)
    clone = call("clone_egress_pkt_to_egress", const(1), const(0))
    b.run("copy", [clone, assign(field("head", "a"), const(0xEE))], **egress)
    return b.json()


def test_headers_that_are_only_read_are_views() -> None:
    """Written, removed and made ones are told apart."""
    program = load_program(views_program())
    assert [program.headers[h].name for h in find_views(program)] == ["tail"]
    grad = load_program(Artifact.load().device_config)
    assert "grad" in {grad.headers[h].name for h in find_views(grad)}


@pytest.mark.compiler
def test_views_leave_with_the_right_bytes(tmp_path: Path) -> None:
    """Wherever the bytes of the header come to lie, and when copies of the packet outlive it."""
    tail, payload = bytes(range(0x11, 0x19)), b"payload"
    with DataPlane.load(views_program(), cache_dir=tmp_path) as switch:
        switch.clone_session_set(1, [(5, 0)])

        def run(kind: int) -> list[tuple[int, bytes]]:
            return switch.inject(0, bytes([kind, 0]) + tail + payload)

        rest = tail + payload
        assert run(0) == [(1, bytes([0, 0x18]) + rest)]
        assert run(1) == [(1, rest)]
        assert run(2) == [(1, bytes(3) + bytes([2, 0x18]) + rest)]
        copy = bytes(3) + bytes([3, 0xEE]) + rest
        assert sorted(run(3)) == [(1, copy), (5, copy)]
        # Too short for the header: it is not there, and reads as nothing.
        assert switch.inject(0, b"\0\1" + tail[:7]) == [(1, b"\0\0" + tail[:7])]
