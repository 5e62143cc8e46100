"""Reading bmv2 JSON: what is malformed or unsupported is named, never half accepted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import generate
from softswitch.errors import BadProgram, SoftSwitchError, UnsupportedConstruct
from softswitch.load import load_program
from softswitch.program import MatchKey, MatchType

PROGRAMS = Path(__file__).parent / "p4"
ROUTER = PROGRAMS / "softswitch_router.json"


def edited(change: Callable[[Any], object], name: str = "router") -> bytes:
    """A program of tests/p4 after a change to its JSON."""
    data = json.loads((PROGRAMS / f"softswitch_{name}.json").read_bytes())
    change(data)
    return json.dumps(data).encode()


def test_router_is_read_as_written() -> None:
    """Tables, keys, actions and arrays have the names and types of the P4 source."""
    program = load_program(ROUTER.read_bytes())
    routes = program.tables["RouterIngress.routes"]
    assert [(k.name, k.match_type, k.width) for k in routes.keys] == [
        ("hdr.ipv4.dst", MatchType.LPM, 32)
    ]
    assert routes.with_counters
    assert routes.max_size == 1024
    assert routes.default_action == "RouterIngress.drop"
    assert [p.width for p in program.actions[routes.actions["RouterIngress.route"]].params] == [
        32,
        9,
    ]
    chosen = program.tables["RouterIngress.filter"]
    assert chosen.match_type is MatchType.RANGE
    assert chosen.uses_priority
    assert program.counter_arrays["RouterIngress.reasons"].size == 4
    assert program.counter_arrays["RouterIngress.routed"].is_direct


def test_match_keys_compare_by_value() -> None:
    """Entries can be found by keys made elsewhere."""
    assert MatchKey(1, mask=3) == MatchKey(1, mask=3)
    assert hash(MatchKey(1)) == hash(MatchKey(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "no __meta__"),
        (b'{"__meta__": {"version": [3, 0]}}', "supported is 2.x"),
        (b"[" * 100000, "not JSON"),
    ],
)
def test_what_is_no_program_is_refused(text: bytes, message: str) -> None:
    """The error says what is wrong with the file."""
    with pytest.raises(BadProgram, match=message):
        load_program(text)


def _cycle(data: Any) -> None:
    tables = data["pipelines"][0]["tables"]
    for table in tables:
        table["base_default_next"] = tables[0]["name"]
        table["next_tables"] = dict.fromkeys(table["next_tables"], tables[0]["name"])


def _jump_out(data: Any) -> None:
    target = {"type": "hexstr", "value": "0x63"}
    data["actions"][0]["primitives"].append({"op": "_jump", "parameters": [target]})


BAD = [
    (lambda d: d["headers"][1].update(header_type="nothing"), "no header type 'nothing'"),
    (lambda d: d["header_types"][2]["fields"][0].__setitem__(1, 0), "width 0"),
    (
        lambda d: d["meter_arrays"].append({"name": "m", "type": "odd"}),
        "packets or bytes, not 'odd'",
    ),
    (
        lambda d: d["meter_arrays"].append(
            {
                "name": "m",
                "type": "bytes",
                "rate_count": 2,
                "is_direct": True,
                "binding": "t",
                "result_target": ["standard_metadata", "egress_spec"],
            }
        ),
        "not that of table 't'",
    ),
    (lambda d: d["pipelines"][0]["tables"][-1].update(direct_meters="m"), "no direct meter 'm'"),
    (
        lambda d: d["learn_lists"].append(
            {"name": "l", "id": 1, "elements": [{"type": "field", "value": ["nothing", "x"]}]}
        ),
        "no header 'nothing'",
    ),
    (
        lambda d: d["parsers"][0]["parse_states"][0]["transitions"].append(
            {"type": "parse_vset", "value": "v", "mask": None, "next_state": None}
        ),
        "no value set 'v'",
    ),
    (
        lambda d: d["pipelines"][0]["tables"][-1].update(type="indirect", action_profile="p"),
        "no action profile 'p'",
    ),
    (lambda d: d["header_types"][2]["fields"][0].__setitem__(1, 10**6), "allowed is 1 to"),
    (lambda d: d["deparsers"][0]["order"].append("nothing"), "no header 'nothing'"),
    (lambda d: d["deparsers"][0]["order"].append("standard_metadata"), "cannot be emitted"),
    (lambda d: d["pipelines"][0].update(init_table="nothing"), "'nothing', which does not exist"),
    (_cycle, "cycle"),
    (_jump_out, "leaves the action"),
    (lambda d: d["parsers"][0].update(init_state="nothing"), "no parser state 'nothing'"),
    (lambda d: d["counter_arrays"][0].update(size=-1), "is -1, allowed"),
    (lambda d: d["counter_arrays"][0].update(size="4"), "must be of type int"),
    (lambda d: d["actions"][0].pop("primitives"), "no attribute 'primitives'"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_contradictions_are_refused(change: Callable[[Any], object], message: str) -> None:
    """Every reference, size and type is checked."""
    with pytest.raises(BadProgram, match=message):
        load_program(edited(change))


UNSUPPORTED = [
    (
        lambda d: d["meter_arrays"].append({"name": "m", "type": "bytes", "rate_count": 1}),
        "meter without two rates",
    ),
    (lambda d: d["extern_instances"].append({"name": "e"}), "extern instance"),
    (lambda d: d["pipelines"][0]["tables"][-1].update(type="odd"), "table of type 'odd'"),
    (lambda d: d["calculations"][0].update(algo="md5"), "hash algorithm 'md5'"),
    (
        lambda d: d["actions"][0]["primitives"].append({"op": "fly", "parameters": []}),
        "primitive 'fly'",
    ),
]


@pytest.mark.parametrize(("change", "construct"), UNSUPPORTED)
def test_unsupported_constructs_are_named(change: Callable[[Any], object], construct: str) -> None:
    """The error names the construct and its place."""
    with pytest.raises(UnsupportedConstruct, match=construct) as caught:
        load_program(edited(change))
    assert caught.value.where


def test_names_of_the_program_never_reach_the_source() -> None:
    """A hostile name or message is data: the C text is the same, or escaped."""
    hostile = '"; system("reboot"); /*'

    def rename(data: Any) -> None:
        old = data["headers"][2]["name"]
        text = json.dumps(data).replace(json.dumps(old), json.dumps(hostile))
        data.clear()
        data.update(json.loads(text))

    plain = generate(load_program(ROUTER.read_bytes()))
    assert generate(load_program(edited(rename))) == plain

    def relabel(data: Any) -> None:
        for action in data["actions"]:
            for primitive in action["primitives"]:
                if primitive["op"] == "log_msg":
                    primitive["parameters"][0]["value"] = hostile + "\n\\??/"

    source = generate(load_program(edited(relabel, "externs")))
    assert "system(" in source
    assert 'system("' not in source
    assert "/*" not in source.split("ss_log_message")[1].split("\n")[0]


def test_mutated_programs_never_crash_the_loader() -> None:
    """Random damage is either harmless or refused with an error of this package."""
    rng = random.Random(3)
    data = json.loads((PROGRAMS / "softswitch_headers.json").read_bytes())

    def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        found = [path]
        for key, value in items:
            found += (
                paths(value, (*path, key)) if isinstance(value, dict | list) else [(*path, key)]
            )
        return found

    everywhere = [p for p in paths(data) if p]
    junk = [None, -1, 10**30, "x", "0xzz", [], {}, [[]], True, 1.5]
    for _ in range(400):
        damaged = json.loads(json.dumps(data))
        *parents, last = rng.choice(everywhere)
        node = damaged
        for key in parents:
            node = node[key]
        node[last] = rng.choice(junk)
        try:
            generate(load_program(json.dumps(damaged).encode()))
        except SoftSwitchError:
            continue
