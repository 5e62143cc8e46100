"""The tests of this folder on bmv2: the same packets have to leave it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from softswitch.dataplane import DataPlane
from softswitch.stf.grammar import parse
from softswitch.stf.programs import Case, find_cases
from tests.bmv2_switch import bmv2
from tests.conformance.compile import PROGRAMS
from tests.conformance.oracle import compare
from tests.p4rt_support import Client

ONLY_HERE = {"action_profiles", "meters"}
"""bmv2 has to be told more than tables and replication: see tests/test_softswitch_bmv2_state.py."""

CASES = [c for c in find_cases(PROGRAMS, recursive=False) if c.name not in ONLY_HERE]

BMV2_IS_WRONG = {("header_unions", 11), ("header_unions", 14)}
"""Lines where bmv2 does not do what P4_16 says: elements that a push or pop of a stack of unions
frees stay valid."""


def _p4info(case: Case, path: Path) -> p4i.P4Info:
    command = ["p4c-bm2-ss", "--std", "p4-16", "-o", "/dev/null", "--p4runtime-files", str(path)]
    subprocess.run([*command, str(case.source)], check=True, capture_output=True)
    return text_format.Parse(path.read_text(), p4i.P4Info())


@pytest.mark.bmv2
@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="bmv2 is not installed")
@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
@pytest.mark.compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bmv2_sends_the_same_packets(case: Case, switch_cache: Path, tmp_path: Path) -> None:
    """Packet by packet. A bmv2 for each program: it does not survive many changes of program."""
    assert case.compiled is not None
    program = case.compiled.read_bytes()
    info = _p4info(case, tmp_path / "info.txtpb")
    with (
        DataPlane.load(program, cache_dir=switch_cache) as switch,
        bmv2(tmp_path / "bmv2.log") as (ports, address),
        Client(address) as client,
    ):
        assert client.arbitrate().status.code == 0
        statements = parse(case.stf.read_text())
        count, differences = compare(program, info, statements, switch, ports, client)
    wrong = {d: text for d, text in differences.items() if (case.name, d) not in BMV2_IS_WRONG}
    assert wrong == {}
    assert count > 0
