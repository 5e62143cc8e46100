"""softswitch.stf: tests of a folder on the switch, their outcomes and the report."""

import json
import shutil
from pathlib import Path

import pytest

from softswitch.cli import main
from softswitch.program import KeyField, MatchKey, MatchType, Table
from softswitch.stf.grammar import MatchField, StfError
from softswitch.stf.names import find, key_of
from softswitch.stf.programs import CannotCompile, P4Compiler, find_cases, not_v1model
from softswitch.stf.runner import Outcome, run_all, run_case

PROGRAMS = Path(__file__).parent / "p4"
PASSES = """
add routes ipv4.dst:0x0a0000**  route(next_hop:1, port:2) = A
add RouterIngress.neighbours next_hop:1 rewrite(dst:0x010203040506)
packet 1 ffffffffffff 000000000001 0800 4500 0014 0000 0000 4000 66e8 0a000002 0a000001
expect 2 010203040506 ****** ******
check_counter routed($A) packets == 1
packet 1 0000
no_packet
check_counter reasons(0) packets == 1
"""
FAILS = PASSES + "expect 2 01$\nexpect 1"


def compiler(tmp_path: Path, command: str = "no-such-p4c") -> P4Compiler:
    """A compiler that is not there."""
    return P4Compiler(command, tmp_path / "compiled")


def write_pair(folder: Path, name: str, stf: str) -> None:
    """Put a test beside a copy of the router program."""
    folder.mkdir(exist_ok=True)
    shutil.copy(PROGRAMS / "softswitch_router.json", folder / f"{name}.json")
    (folder / f"{name}.stf").write_text(stf)


@pytest.mark.compiler
def test_outcomes_have_reasons(tmp_path: Path) -> None:
    """Passed, failed, refused and skipped, from processes of their own."""
    write_pair(tmp_path, "good", PASSES)
    write_pair(tmp_path, "bad", FAILS)
    write_pair(tmp_path, "wrong", "add nowhere k:1 a()")
    write_pair(tmp_path, "damaged", "wait")
    (tmp_path / "damaged.json").write_text("{")
    write_pair(tmp_path, "externs", "wait")
    program = json.loads((tmp_path / "externs.json").read_text())
    program["extern_instances"] = [{"name": "e", "id": 0, "type": "odd"}]
    (tmp_path / "externs.json").write_text(json.dumps(program))
    (tmp_path / "other.stf").write_text("wait")
    (tmp_path / "other.p4").write_text("#include <core.p4>\n#include <psa.p4>\n")
    (tmp_path / "uncompiled.stf").write_text("wait")
    (tmp_path / "uncompiled.p4").write_text("#include <v1model.p4>\n")
    cases = find_cases(tmp_path, recursive=False)
    found = {r.name: r for r in run_all(cases, compiler(tmp_path), jobs=2, timeout_s=120)}
    assert {name: result.outcome for name, result in found.items()} == {
        "good": Outcome.PASSED,
        "bad": Outcome.FAILED,
        "wrong": Outcome.FAILED,
        "damaged": Outcome.FAILED,
        "externs": Outcome.REFUSED,
        "other": Outcome.SKIPPED,
        "uncompiled": Outcome.FAILED,
    }
    assert found["bad"].reasons == (
        "port 1: 0 packets left, 1 are expected",
        "port 2: 1 packets left, 2 are expected",
    )
    assert "line 1: the program has no table 'nowhere'" in found["wrong"].reasons[0]
    assert "not JSON" in found["damaged"].reasons[0]
    assert "extern instance" in found["externs"].reasons[0]
    assert "psa" in found["other"].reasons[0]
    assert "no-such-p4c is not on PATH" in found["uncompiled"].reasons[0]


def test_a_crash_fails_one_test_alone(tmp_path: Path) -> None:
    """The process of a test may be killed, as by a crash of the switch."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.stf").write_text("")
        (tmp_path / f"{name}.p4").write_text("#include <v1model.p4>\n")
    # A P4 compiler that kills its parent stands for code that crashes.
    killer = tmp_path / "p4c"
    killer.write_text('#!/bin/sh\nkill -SEGV "$PPID"\n')
    killer.chmod(0o755)
    cases = find_cases(tmp_path, recursive=False)
    results = run_all(cases, compiler(tmp_path, str(killer)), jobs=2, timeout_s=60)
    assert {r.reasons for r in results} == {("the test's process ended with signal 11",)}


@pytest.mark.compiler
def test_differences_are_shown(tmp_path: Path) -> None:
    """A wrong byte, a packet that is too long and one that is too short."""
    packet = "ffffffffffff00000000000108004500001400000000400066e80a0000020a000001"
    head = PASSES.split("packet", maxsplit=1)[0] + f"packet 1 {packet}\n"
    for expect, text in (
        ("expect 2 0102 ff", "line 5: port 2: byte 2 differs"),
        ("expect 2 0102$", "line 5: port 2: 34 bytes left, 2 are expected"),
        (f"expect 2 {'*' * 70}", "line 5: port 2: 34 bytes left, 35 are expected"),
    ):
        write_pair(tmp_path, "case", head + expect)
        result = run_case(find_cases(tmp_path, recursive=False)[0], compiler(tmp_path))
        assert result.reasons[0].startswith(text)


@pytest.mark.compiler
def test_the_command_reports_and_exits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`softswitch stf` prints a table, writes JSON and exits with 1 on failures."""
    folder, output = tmp_path / "tests", tmp_path / "out.json"
    write_pair(folder, "good", PASSES)
    for stf, code in ((PASSES, 0), (FAILS, 1)):
        write_pair(folder, "second", stf)
        monkeypatch.setattr("sys.argv", ["softswitch", str(folder), "--json", str(output)])
        with pytest.raises(SystemExit) as exit_info:
            main(["stf"])
        assert exit_info.value.code == code
    assert "1 passed, 1 failed, 0 refused, 0 skipped" in capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["passed"] == ["good"]
    assert [f["test"] for f in report["failed"]] == ["second"]
    assert report["refused"] == []
    assert report["conditions"]["folder"] == str(folder)


def test_folders_without_tests_are_named(tmp_path: Path) -> None:
    """Neither a missing folder nor an empty one is a success."""
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Exception, match=r"neither a folder|has no .stf files"):
            find_cases(path, recursive=False)


def test_tests_in_deeper_folders(tmp_path: Path) -> None:
    """--recursive finds them, by their path."""
    write_pair(tmp_path / "deep", "a", "")
    write_pair(tmp_path, "b", "")
    assert [c.name for c in find_cases(tmp_path, recursive=False)] == ["b"]
    assert [c.name for c in find_cases(tmp_path, recursive=True)] == ["b", "deep/a"]


def test_architecture_through_local_includes(tmp_path: Path) -> None:
    """A program may include v1model.p4 by way of another file."""
    (tmp_path / "a.stf").write_text("")
    (tmp_path / "a.p4").write_text('#include "common.p4"\n')
    (tmp_path / "common.p4").write_text('#include "a.p4"\n# include <v1model.p4>\n')
    assert not_v1model(find_cases(tmp_path, recursive=False)[0]) is None


def test_a_compiled_program_is_used_again(tmp_path: Path) -> None:
    """The compiler is only called when the program is newer than what it made."""
    (tmp_path / "a.stf").write_text("")
    (tmp_path / "a.p4").write_text("#include <v1model.p4>\n")
    case = find_cases(tmp_path, recursive=False)[0]
    command = tmp_path / "p4c"
    command.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "p4c 1.2" && exit\necho "{}" > "$5"\n'
    )
    command.chmod(0o755)
    fake = compiler(tmp_path, str(command))
    assert fake.version() == "1.2"
    assert fake.compile(case).read_text() == "{}\n"
    command.write_text("#!/bin/sh\necho 'a.p4(1): [--Werror] error: odd' >&2; exit 1\n")
    assert fake.compile(case).read_text() == "{}\n"
    (tmp_path / "compiled" / "a.json").unlink()
    with pytest.raises(CannotCompile, match="error: odd"):
        fake.compile(case)


def test_names_by_their_end() -> None:
    """The end of a name is enough while it fits one object; whole parts come first."""
    known = {"ingress.t": 1, "ingress.dst": 2, "egress.u": 3, "ingress.u": 4}
    assert find("table", "t", known) == 1
    assert find("table", "egress.u", known) == 3
    with pytest.raises(StfError, match="may be any of"):
        find("table", "u", known)
    with pytest.raises(StfError, match="has no table"):
        find("table", "v", known)


def test_values_of_key_fields() -> None:
    """Masks cover the digits that are written; fields that are not named match everything."""
    kinds = (MatchType.EXACT, MatchType.LPM, MatchType.TERNARY, MatchType.RANGE, MatchType.OPTIONAL)
    keys = tuple(KeyField(f"h.{k}", k, 16, 0, 0) for k in kinds)
    valid = KeyField("h.$valid$", MatchType.EXACT, 1, 0, 0)
    table = Table("t", 0, (*keys, valid), MatchType.RANGE, {}, 1, (), None, (), *[False] * 4)

    def key(**fields: str) -> tuple[MatchKey, ...]:
        parts = []
        for name, text in fields.items():
            joint = next((j for j in ("/", "&&&", "..") if j in text), "")
            first, _, second = text.partition(joint) if joint else (text, "", "")
            parts.append(MatchField(name, first, joint, second))
        return key_of(table, tuple(parts))

    wild = (
        MatchKey(0),
        MatchKey(0),
        MatchKey(0),
        MatchKey(0, high=0xFFFF),
        MatchKey(0),
        MatchKey(0),
    )
    assert key() == wild
    assert key(exact="0x12", valid="0b1")[0] == MatchKey(0x12)
    assert key(valid="1")[5] == MatchKey(1)
    assert key(lpm="0x12**")[1] == MatchKey(0x1200, prefix_len=8)
    assert key(lpm="10/7")[1] == MatchKey(10, prefix_len=7)
    assert key(ternary="0x1*3")[2] == MatchKey(0x103, mask=0xF0F)
    assert key(ternary="3")[2] == MatchKey(3, mask=0xFFFF)
    assert key(ternary="0x10&&&0xf0")[2] == MatchKey(0x10, mask=0xF0)
    assert key(range="0x10..0x20")[3] == MatchKey(0x10, high=0x20)
    assert key(range="5")[3] == MatchKey(5, high=5)
    assert key(optional="0x5")[4] == MatchKey(5, mask=0xFFFF)
    assert key(optional="*")[4] == MatchKey(0)
    for wrong in ({"exact": "0x10000"}, {"nothing": "1"}, {"exact": "1/2"}, {"exact": "0x1*"}):
        with pytest.raises(StfError):
            key(**wrong)
