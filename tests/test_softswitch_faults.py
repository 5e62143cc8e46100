"""Faults as text, JSON and files."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.errors import InvalidArgument, SoftSwitchError
from softswitch.faults import Direction, FaultRule, LinkFaults, expand, read_fault_file

FAULTS = st.builds(
    LinkFaults,
    loss=st.floats(0, 1),
    duplicate=st.floats(0, 1),
    reorder=st.floats(0, 1),
    reorder_depth=st.integers(1, 64),
    hold_s=st.integers(0, 60 * 10**9).map(lambda ns: ns / 1e9),
    delay_s=st.integers(0, 60 * 10**9).map(lambda ns: ns / 1e9),
    jitter_s=st.integers(0, 60 * 10**9).map(lambda ns: ns / 1e9),
    spike=st.floats(0, 1),
    spike_delay_s=st.integers(0, 60 * 10**9).map(lambda ns: ns / 1e9),
    rate_bps=st.integers(0, 10**12),
    queue_bytes=st.integers(1, 1 << 30),
    seed=st.integers(0, 2**64 - 1),
    down=st.booleans(),
)


def test_text_has_units() -> None:
    """Each word becomes the field that it names."""
    text = "loss=0.05,dup=0.01,reorder=0.02,depth=3,hold=1s,delay=5ms,jitter=1.5us,spike=1e-3,"
    text += "spike_delay=250ns,rate=20mbit,queue=64kb,seed=7,down"
    assert LinkFaults.parse(text) == LinkFaults(
        loss=0.05,
        duplicate=0.01,
        reorder=0.02,
        reorder_depth=3,
        hold_s=1.0,
        delay_s=0.005,
        jitter_s=1.5e-6,
        spike=0.001,
        spike_delay_s=250e-9,
        rate_bps=20_000_000,
        queue_bytes=64_000,
        seed=7,
        down=True,
    )
    assert LinkFaults.parse("rate=2.5gbit").rate_bps == 2_500_000_000
    assert LinkFaults.parse("rate=1000") == LinkFaults(rate_bps=1000)
    assert LinkFaults.parse("down=false") == LinkFaults.parse("loss=0") == LinkFaults()


@settings(deadline=None, derandomize=True)
@given(FAULTS)
def test_text_round_trips(faults: LinkFaults) -> None:
    """What is printed is read again as the same faults."""
    assert LinkFaults.parse(str(faults)) == faults


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no fault ''"),
        ("los=0.1", "no fault 'los'; there are loss, dup"),
        ("loss", "probability"),
        ("loss=x", "probability"),
        ("loss=1.5", "0 to 1"),
        ("loss=-0.1", "0 to 1"),
        ("loss=nan", "0 to 1"),
        ("loss=0.1,loss=0.2", "twice"),
        ("delay=5", "unit"),
        ("delay=5min", "unit"),
        ("delay=-5ms", "unit"),
        ("delay=61s", "0 to 60"),
        ("jitter=1e9ms", "unit"),
        ("rate=20mbps", "kbit, mbit"),
        ("rate=0.5bit", "whole number"),
        ("rate=2000gbit", "0 to 1e\\+12"),
        ("queue=0", "1 to"),
        ("depth=65", "1 to 64"),
        ("seed=-1", "whole number"),
        ("seed=18446744073709551616", "whole|seed is"),
        ("down=yes", "true or false"),
    ],
)
def test_bad_text_is_refused(text: str, reason: str) -> None:
    """The error says what was given and what is allowed."""
    with pytest.raises(InvalidArgument, match=reason):
        LinkFaults.parse(text)


@pytest.mark.parametrize(
    "values",
    [
        {"loss": True},
        {"loss": "0.1"},
        {"loss": math.inf},
        {"delay_s": -1.0},
        {"reorder_depth": 1.0},
        {"seed": 1 << 64},
        {"down": 1},
    ],
)
def test_bad_fields_are_refused(values: dict[str, Any]) -> None:
    """The Python interface checks as the text does."""
    with pytest.raises(InvalidArgument):
        LinkFaults(**values)


def test_rules() -> None:
    """A rule is port, direction and faults; `all` and `both` stand for each."""
    rule = FaultRule.parse("1:tx:loss=0.05,seed=7")
    assert rule == FaultRule(1, (Direction.TX,), LinkFaults(loss=0.05, seed=7))
    assert str(rule) == "1:tx:loss=0.05,seed=7"
    everywhere = FaultRule.parse("all:both:loss=0.01")
    assert str(everywhere) == "all:both:loss=0.01"
    links = expand([everywhere, rule], [1, 2])
    assert len(links) == 4
    assert links[1, Direction.TX].loss == 0.05
    assert links[1, Direction.RX].loss == links[2, Direction.TX].loss == 0.01
    with pytest.raises(InvalidArgument, match="no port 1; ports are 2, 3"):
        expand([rule], [3, 2])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("loss=0.1", "PORT:DIRECTION:FAULTS"),
        ("1:tx", "PORT:DIRECTION:FAULTS"),
        ("511:tx:loss=0", "0 to 510"),
        ("x:tx:loss=0", "0 to 510"),
        ("\u0661:tx:loss=0", "0 to 510"),
        ("1:up:loss=0", "rx, tx and both"),
        ("1:tx:loss=2", "0 to 1"),
    ],
)
def test_bad_rules_are_refused(text: str, reason: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(InvalidArgument, match=reason):
        FaultRule.parse(text)


def test_files(tmp_path: Path) -> None:
    """A file has the words of the text, as JSON."""
    path = tmp_path / "faults.json"
    faults = [
        {"port": 1, "direction": "tx", "loss": 0.05, "delay": "5ms", "seed": 7},
        {"port": "all", "direction": "both", "rate": 1000, "down": True},
    ]
    path.write_text(json.dumps({"schema": 1, "faults": faults}))
    assert read_fault_file(path) == [
        FaultRule.parse("1:tx:loss=0.05,delay=5ms,seed=7"),
        FaultRule.parse("all:both:rate=1000,down"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nothing", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "schema"),
        ('{"schema": 2, "faults": []}', "schema"),
        ('{"schema": 1}', '"faults"'),
        ('{"schema": 1, "faults": [], "more": 1}', "no more"),
        ('{"schema": 1, "faults": [1]}', "port and direction"),
        ('{"schema": 1, "faults": [{"port": 1, "direction": "tx", "loss": []}]}', "probability"),
        ('{"schema": 1, "faults": [{"port": true, "direction": "tx"}]}', "0 to 510"),
        ('{"schema": 1, "faults": [{"port": 1, "direction": ["tx"]}]}', "rx, tx and both"),
        ('{"schema": 1, "faults": [{"port": 1, "direction": "tx", "seed": 1.5}]}', "whole number"),
        ('{"schema": 1, "faults": [{"port": 1, "direction": "tx", "delay": 5}]}', "unit"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: str, reason: str) -> None:
    """The error names the file and what is wrong in it."""
    path = tmp_path / "faults.json"
    path.write_text(content)
    with pytest.raises(InvalidArgument, match=reason) as caught:
        read_fault_file(path)
    assert str(path) in str(caught.value)


def test_missing_and_huge_files_are_refused(tmp_path: Path) -> None:
    """Files are read up to a bound."""
    with pytest.raises(InvalidArgument, match="No such file"):
        read_fault_file(tmp_path / "none")
    huge = tmp_path / "huge"
    huge.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidArgument, match="longer"):
        read_fault_file(huge)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from([f.metadata["word"] for f in fields(LinkFaults)] + ["x"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
        ),
    )
)
def test_any_words_make_faults_or_a_refusal(words: dict[str, object]) -> None:
    """Nothing else than SoftSwitchError comes out."""
    with contextlib.suppress(SoftSwitchError):
        LinkFaults.from_words(words)
