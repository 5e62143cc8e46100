"""softswitch.stf.grammar: text to statements."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.stf.grammar import (
    ActionCall,
    Add,
    CheckCounter,
    Command,
    Expect,
    MatchField,
    NoPacket,
    Packet,
    RemoveAll,
    SetDefault,
    StfError,
    Wait,
    parse,
)


def test_every_statement_is_read() -> None:
    """One statement of each kind, with comments and upper-case keywords."""
    text = """
    # a comment
    ADD t 100 a.b[1].c:0x0*1 x$0:0b1*  act(p:2, q:0x3) = $id  # and another
    add t k:10/8
        act()
    setdefault ing.t "odd name"(p:1)
    remove all
    packet 1 0a0B 0c 01
    expect 2 0a** 0C$
    expect 3
    no_packet
    check_counter c(3) packets >= 2
    check_counter c($id)
    mc_node_create 1 2 3
    wait
    """
    key = (MatchField("a.b[1].c", "0x0*1"), MatchField("x$0", "0b1*"))
    assert parse(text) == [
        Add(3, "t", 100, key, ActionCall("act", (("p", "2"), ("q", "0x3"))), "$id"),
        Add(4, "t", None, (MatchField("k", "10", "/", "8"),), ActionCall("act", ()), None),
        SetDefault(6, "ing.t", ActionCall("odd name", (("p", "1"),))),
        RemoveAll(7),
        Packet(8, 1, bytes.fromhex("0a0b0c01")),
        Expect(9, 2, "0a**0c", True),
        Expect(10, 3, "", False),
        NoPacket(11),
        CheckCounter(12, "c", "3", "packets", ">=", 2),
        CheckCounter(13, "c", "$id", None, "==", 0),
        Command(14, "mc_node_create", ("1", "2", "3")),
        Wait(15),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "forward 1 2",
        "packet x 00",
        "packet 1 0",
        "packet 1",
        "packet 1 0*",
        "expect 1 0g",
        "expect 1 $00",
        "add t k:1",
        "add t k:1 a(p)",
        "add t k:1 a(p:1) extra",
        "add t 0x k:1 a()",
        "setdefault t",
        "remove some",
        "check_counter c",
        "check_counter c(1) packets about 1",
        "packet 1 00\n 00",
    ],
)
def test_wrong_statements_are_named_with_their_line(text: str) -> None:
    """Each error says in which line it is."""
    with pytest.raises(StfError, match=r"line [12]: "):
        parse(text)


@settings(derandomize=True, max_examples=300)
@given(st.text('adexpctk \t\n:()=*$&.#0123/[]"', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but StfError."""
    for word in ("", "add ", "expect ", "check_counter ", "setdefault "):
        with contextlib.suppress(StfError):
            parse(word + text)
