"""Constructs of the JSON format that no P4_16 compiler writes, or that clash with other tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from tests.softswitch_json import ProgramBuilder, assign, call, const, field, op, param

pytestmark = pytest.mark.compiler
PROGRAMS = Path(__file__).parent / "conformance" / "programs"


def only(switch: DataPlane, packet: str) -> str:
    """The one packet that leaves, as hexadecimal digits."""
    [(_, output)] = switch.inject(0, bytes.fromhex(packet.replace(" ", "")))
    return output.hex()


def test_primitives_and_saturating_fields_of_p4_14(tmp_path: Path) -> None:
    """What old compilers wrote for assignments; a clamp where a field asks for it."""
    b = ProgramBuilder()
    b.header("h", [["a", 8, False], ["b", 8, False], ["u", 8, False, True], ["s", 8, True, True]])
    names = ("add", "subtract", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
    b.header("out", [[name, 8, False] for name in names])
    b.state("start", [b.extract("h")])
    b.deparser = ["h", "out"]
    h_a, h_b = field("h", "a"), field("h", "b")
    b.run("fast", [call("add_header_fast", {"type": "header", "value": "out"})])
    b.run("three", [call(name, field("out", name), h_a, h_b) for name in names])
    plus = op("+", None, op("+", h_a, h_b))
    b.run(
        "two",
        [
            call("modify_field", field("h", "u"), plus),
            call("modify_field", field("h", "s"), op("-", None, plus)),
            call("add_to_field", h_a, h_b),
            call("subtract_from_field", h_b, const(1)),
        ],
    )
    with DataPlane.load(b.json(), cache_dir=tmp_path) as switch:
        out = "e3" + "dd" + "00" + "e3" + "e3" + "00" + "1c"
        assert only(switch, "e0030000") == "e302" + "e3" + "80" + out
        assert only(switch, "f0200000")[:8] == "101f" + "ff" + "80"


def test_length_expression_of_a_header_type(tmp_path: Path) -> None:
    """The header itself says how long its varbit field is, which starts within a byte."""
    b = ProgramBuilder()
    fields = [["len", 4, False], ["data", "*", False], ["tail", 12, False]]
    b.header("h", fields)
    b.header_types[-1]["max_length"] = 6
    local = {"type": "local", "value": 0}
    b.header_types[-1]["length_exp"] = {
        "type": "expression",
        "value": {"op": "*", "left": local, "right": const(8)},
    }
    b.header("out", [["error", 8, False]])
    b.state("start", [b.extract("h")])
    b.deparser = ["out", "h"]
    b.run(
        "go",
        [
            call("add_header", {"type": "header", "value": "out"}),
            assign(field("out", "error"), field("standard_metadata", "parser_error")),
            assign(field("h", "tail"), const(0xABC)),
        ],
    )
    with DataPlane.load(b.json(), cache_dir=tmp_path) as switch:
        assert only(switch, "0123 99") == "00" + "0abc" + "99"
        assert only(switch, "2 1234 567 99") == "00" + "21234abc" + "99"
        assert only(switch, "4 12345678 567 99") == "00" + "412345678abc" + "99"
        assert only(switch, "5 123456789a 567 99") == "04" + "5123456789a56799"
        assert only(switch, "2 1234 5") == "01" + "212345"


def test_wide_parameters_and_keys(tmp_path: Path) -> None:
    """Parameters of 200 bits, from an entry, a default entry and a fixed call; a key of 136."""
    b = ProgramBuilder()
    b.header("h", [["key", 136, False], ["a", 200, False]])
    b.header("out", [["state", 8, False], ["b", 208, False]])
    sets = b.action("set", [assign(field("h", "a"), op("+", local(0), local(1)))], [200, 8])
    full = b.action("all", [assign(field("out", "b"), op("+", param(0), const(1)))], [200])
    key = 0x0102030405060708090A0B0C0D0E0F1011
    b.state(
        "start",
        [b.extract("h")],
        [field("h", "key")],
        [(hex(key), None, "known"), (hex(key & ~0xFF), hex((1 << 136) - 0x100), "like")],
    )
    b.state("known", [set_state(1)])
    b.state("like", [set_state(2)])
    b.header("meta", [["state", 8, False]], metadata=True)
    b.deparser = ["out", "h"]
    b.run(
        "go",
        [
            call("add_header", {"type": "header", "value": "out"}),
            assign(field("out", "state"), field("meta", "state")),
        ],
    )
    b.table("fixed", [], [full], (full, [2**200 - 1]), const_default=True)
    b.table("t", [("exact", field("h", "key"))], [sets], (sets, [2**199, 1]))
    with DataPlane.load(b.json(), cache_dir=tmp_path) as switch:
        head = "01" + "01" + "00" * 25
        assert only(switch, f"{key:034x}" + "00" * 25)[: len(head)] == head
        assert only(switch, f"{key ^ 0x80:034x}" + "00" * 25)[:2] == "02"
        assert only(switch, f"{key ^ 0x180:034x}" + "00" * 25)[:2] == "00"
        switch.table_add("t", TableEntry((MatchKey(key),), 0, "set", (2**200 - 3, 5)))
        assert only(switch, f"{key:034x}" + "00" * 25)[-50:] == f"{2:050x}"
        assert only(switch, f"{key + 1:034x}" + "00" * 25)[-50:] == f"{2**199 + 1:050x}"


def local(index: int) -> dict[str, Any]:
    """A parameter within an expression."""
    return {"type": "local", "value": index}


def set_state(value: int) -> dict[str, Any]:
    """A parser operation that notes which state was visited."""
    return {"op": "set", "parameters": [field("meta", "state"), const(value)]}


def test_unions_of_a_stack_at_a_run_time_index(tmp_path: Path) -> None:
    """p4c only compiles constant indices; the format and bmv2 have them at run time."""
    program = json.loads((PROGRAMS / "header_unions.json").read_text())
    stack = {"type": "header_union_stack", "value": "options"}
    element = op("dereference_union_stack", stack, field("ctl", "unused"))
    members = [op("access_union_header", element, member) for member in (0, 1)]
    headers = {"options[1].narrow": members[0], "options[1].wide": members[1]}
    numbers = {"kind": 0, "value": 1, "more": 2}

    def changed(node: Any) -> Any:
        match node:
            case {"type": "header", "value": str(name)} if name in headers:
                return headers[name]
            case {"type": "field", "value": [name, "$valid$"]} if name in headers:
                return op("b2d", None, op("valid", None, headers[name]))
            case {"type": "field", "value": [name, str(field_name)]} if name in headers:
                return op("access_field", headers[name], numbers[field_name])
            case dict():
                return {key: changed(value) for key, value in node.items()}
            case list():
                return [changed(value) for value in node]
        return node

    for part in ("actions", "pipelines"):
        program[part] = changed(program[part])
    with DataPlane.load(json.dumps(program).encode(), cache_dir=tmp_path) as switch:
        options = "0311 04222233 0344"
        assert only(switch, "0000" + options + "00")[:4] == "0411"
        assert only(switch, "0001" + options + "00")[:4] == "0833"
        assert only(switch, "0002" + options + "00")[:4] == "0444"
        assert only(switch, "0003" + options + "00")[:4] == "00ff"
        assert (
            only(switch, "0101" + options + "00")
            == "0833" + "0101" + "5500" + "0311" + "0077" + "034400"
        )


def test_the_last_header_of_a_stack_as_a_whole(tmp_path: Path) -> None:
    """p4c writes it as a field with the name "last"."""
    b = ProgramBuilder()
    b.stack("items", [["value", 8, False]], 2)
    b.instance("copy", "items_t")
    last = {"type": "expression", "value": {"type": "stack_field", "value": ["items", "last"]}}
    copied = call("assign_header", {"type": "header", "value": "copy"}, last)
    take = b.extract("items", "stack")
    b.state("start", [take, take, {"op": "primitive", "parameters": [copied]}])
    b.deparser = ["copy", "items[0]", "items[1]"]
    with DataPlane.load(b.json(), cache_dir=tmp_path) as switch:
        assert only(switch, "0102 99") == "02" + "0102" + "99"
