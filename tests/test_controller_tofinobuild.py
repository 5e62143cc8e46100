"""`make tofino`: the compiler is called as it should be, and its reports are read."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from controller import tofinobuild
from controller.artifacts import BUILD_DIR, sha256, sources_sha256
from controller.p4build import CompilerFailed, CompilerMissing, layout_of
from controller.targets.ports import CHIPS, TOFINO, TOFINO2, Chip
from controller.targets.tofino_output import TofinoProgram
from controller.tofino_report import ChipUse, read_chip_use
from host_stack.errors import BadInput
from tests.tofino_output import write_output

DOCS = Path(__file__).parent.parent / "docs"


def stage(number: int, *threads: str) -> dict[str, Any]:
    """A stage with an action of each of `threads`, two stateful ALUs, three SRAMs and a TCAM."""
    instructions = [{"color_usages": [{"color": 0, "gress": each}]} for each in threads]
    return {
        "stage_number": number,
        "vliw": {"instructions": instructions},
        "meter_alus": {"meters": [{"row": 1}, {"row": 3}]},
        "rams": {"srams": [{"row": 0}, {"row": 1}, {"row": 2}]},
        "tcams": {"tcams": [{"row": 0}]},
    }


def parser(gress: str, *compared: str) -> dict[str, Any]:
    """A parser whose second state has an entry for each of `compared`; the first has none."""
    entries = [{"matchesOn": []}, *({"matchesOn": [{"value": each}]} for each in compared)]
    return {"gress": gress, "states": entries}


PARSERS = [parser("ingress", "0x0800", "0x****"), parser("egress", "0x01")]
STAGES = [stage(0, "ingress", "egress"), stage(1), stage(2, "egress"), stage(4, "ingress")]


def container(kind: str, *slices: tuple[int, int]) -> dict[str, Any]:
    """A container of the header vector that holds bits lsb…msb."""
    return {
        "container_type": kind,
        "slices": [{"slice_info": {"lsb": low, "msb": high}} for low, high in slices],
    }


def power(gress: str, watts: object, pipe: int = 0) -> dict[str, Any]:
    """What a thread takes."""
    return {"gress": gress, "pipe_number": pipe, "power": watts}


POWER = [power("ingress", 27.0449), power("egress", 8), power("ghost", 0.5)]


def resources(mau: dict[str, Any], parsers: list[dict[str, Any]] = PARSERS) -> dict[str, Any]:
    """The report of the resources."""
    return {"resources": {"mau": mau, "parser": {"parsers": parsers}}}


def write_reports(folder: Path, **changes: Any) -> Path:
    """Reports in the form of the back end's schemas; `changes` replace whole reports."""
    reports = {
        "resources": resources({"nStages": 12, "mau_stages": STAGES}),
        "phv": {
            "containers": [
                container("normal", (0, 7), (4, 15)),
                container("normal", (31, 31)),
                container("tagalong", (0, 31)),
            ]
        },
        "power": {"total_power": POWER},
        **changes,
    }
    (folder / "pipe" / "logs").mkdir(parents=True, exist_ok=True)
    for kind, report in reports.items():
        (folder / "pipe" / "logs" / f"{kind}.json").write_text(json.dumps(report))
    files = {
        "resources": [{"type": "resources", "path": "pipe/logs/resources.json"}],
        "logs": [
            {"log_type": "phv", "path": "pipe/logs/phv.json"},
            {"log_type": "power", "path": "pipe/logs/mau.power.log"},
            {"log_type": "power", "path": "pipe/logs/power.json"},
        ],
    }
    manifest = {"compiler_version": "9.13.4", "programs": [{"pipes": [{"files": files}]}]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_reports_are_added_up(tmp_path: Path) -> None:
    """Bits that two fields share count once; other containers than normal ones do not count."""
    assert read_chip_use(write_reports(tmp_path)) == ChipUse(
        stages_ingress=5,
        stages_egress=3,
        stateful_alus=8,
        sram_blocks=12,
        tcam_blocks=4,
        phv_bits=17,
        power_ingress_w=27.0,
        power_egress_w=8.0,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": {}},
        {"resources": resources({"mau_stages": [{"stage_number": 0}]})},
        {"resources": resources({"nStages": None, "mau_stages": STAGES})},
        {"resources": {"resources": {"mau": {"nStages": 12, "mau_stages": STAGES}}}},
        {"resources": resources({"nStages": 12, "mau_stages": STAGES}, [{"gress": "ingress"}])},
        {"phv": {"containers": [{"container_type": "normal", "slices": 3}]}},
        {"phv": {"containers": [container("normal", (0, 32))]}},
        {"phv": {"containers": [container("normal", (0, 1 << 70))]}},
        {"phv": {"containers": [container("normal", (9, 1))]}},
        {"power": {}},
        {"power": {"total_power": POWER[:1]}},
        {"power": {"total_power": [*POWER, power("egress", 1.0, 1)]}},
        {"power": {"total_power": [power("ingress", "27"), POWER[1]]}},
        {"power": {"total_power": [power("ingress", True), POWER[1]]}},
        {"power": {"total_power": [power("ingress", -0.1), POWER[1]]}},
        {"power": {"total_power": [power("ingress", float("nan")), POWER[1]]}},
        {"power": {"total_power": [power("ingress", float("inf")), POWER[1]]}},
    ],
)
def test_other_reports_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A back end that writes something else is not misread."""
    with pytest.raises(BadInput, match="are not as expected"):
        read_chip_use(write_reports(tmp_path, **changes))


def test_a_program_that_does_not_fit(tmp_path: Path) -> None:
    """The back end goes on where the chip ends; the error says by how much."""
    write_reports(tmp_path, resources=resources({"nStages": 4, "mau_stages": STAGES}))
    with pytest.raises(BadInput, match="takes 5 stages, and the chip has 4"):
        read_chip_use(tmp_path)


@pytest.mark.parametrize("gress", ["ingress", "egress"])
def test_a_parser_that_selects_nothing(tmp_path: Path, gress: str) -> None:
    """Some versions of p4c drop every select without a word; what they make is not taken."""
    parsers = [parser(gress) if each["gress"] == gress else each for each in PARSERS]
    mau = {"nStages": 12, "mau_stages": STAGES}
    write_reports(tmp_path, resources=resources(mau, parsers))
    with pytest.raises(BadInput, match=f"parser of the {gress} looks at no packet.*request 5753"):
        read_chip_use(tmp_path)


def test_what_is_refused_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older record stays, and has the same description: the output beside it is not taken."""
    made = write_reports(write_output(tmp_path / "made"))
    install(tmp_path, monkeypatch, f'while [ "$1" != -o ]; do shift; done\ncp -r "{made}"/. "$2"')
    build = tmp_path / "build"
    tofinobuild.compile_tofino(TOFINO, [], build)
    TofinoProgram.load("tofino", build)
    mau = {"nStages": 12, "mau_stages": STAGES}
    write_reports(made, resources=resources(mau, [parser("ingress")]))
    with pytest.raises(BadInput, match="looks at no packet"):
        tofinobuild.compile_tofino(TOFINO, [], build)
    with pytest.raises(BadInput, match=r"holds 0 files \*\.conf.*`make tofino`"):
        TofinoProgram.load("tofino", build)


def test_the_output_of_older_sources_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that came with newer sources is not that of the output, whose P4Info is the same."""
    made = write_reports(write_output(tmp_path / "made"))
    install(tmp_path, monkeypatch, f'while [ "$1" != -o ]; do shift; done\ncp -r "{made}"/. "$2"')
    build = tmp_path / "build"
    record = tofinobuild.compile_tofino(TOFINO, [], build)
    TofinoProgram.load("tofino", build)
    (build / "tofino.json").write_text(json.dumps({**record, "sources_sha256": "0" * 64}))
    with pytest.raises(BadInput, match=r"not the output that tofino\.json records.*`make tofino`"):
        TofinoProgram.load("tofino", build)


def test_a_report_elsewhere_is_not_read(tmp_path: Path) -> None:
    """The manifest names files of the output folder alone."""
    manifest = json.loads((write_reports(tmp_path) / "manifest.json").read_text())
    manifest["programs"][0]["pipes"][0]["files"]["logs"][0]["path"] = "../phv.json"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match="inside of the folder"):
        read_chip_use(tmp_path)


@pytest.mark.parametrize("path", [None, 3, ["a"], {}])
def test_a_manifest_that_names_no_file(tmp_path: Path, path: object) -> None:
    """Its paths are text."""
    manifest = json.loads((write_reports(tmp_path) / "manifest.json").read_text())
    manifest["programs"][0]["pipes"][0]["files"]["resources"][0]["path"] = path
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match="are not as expected"):
        read_chip_use(tmp_path)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a program called bf-p4c on PATH that runs `body` for the arguments of a compilation."""
    script = folder / "bf-p4c"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --target-help ] && echo "tofino-tna tofino2-t2na" && exit 0\n{body}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is missing and where it comes from."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissing, match="ENABLE_TOFINO"):
        tofinobuild.compile_tofino(TOFINO, [], tmp_path / "build")


def test_what_the_compiler_says_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not fit is an error with the compiler's words."""
    install(tmp_path, monkeypatch, "echo table placement cannot fit >&2; exit 1")
    with pytest.raises(CompilerFailed, match="placement cannot fit"):
        tofinobuild.compile_tofino(TOFINO, [], tmp_path / "build")
    assert not (tmp_path / "build" / "tofino.json").exists()


@pytest.mark.parametrize("macro", ["LANES", "LANES=", "LANES=x", "ROW_BITS=4", "", "LANES=16 -x"])
def test_macros_that_are_none(tmp_path: Path, macro: str) -> None:
    """The record would not say what was compiled."""
    with pytest.raises(BadInput, match="allowed are LANES=NUMBER and EGRESS_LANES=NUMBER"):
        tofinobuild.compile_tofino(TOFINO, [macro], tmp_path / "build")


def test_what_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that cannot be made is said to the operator, without a traceback."""
    install(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "build").write_text("a file")
    monkeypatch.setattr(tofinobuild, "BUILD_DIR", tmp_path / "build")
    monkeypatch.setattr("sys.argv", ["tofinobuild"])
    assert tofinobuild.main() == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and "build" in said


@pytest.mark.parametrize("chip", list(CHIPS.values()), ids=list(CHIPS))
def test_the_record(chip: Chip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what was compiled, with which macros, and what it takes; the output is loadable."""
    made = write_reports(write_output(tmp_path / "made"))
    (made / "p4info.txtpb").write_text(f'pkg_info {{ arch: "{chip.arch}" }}\n')
    install(
        tmp_path,
        monkeypatch,
        'while [ "$1" != -o ]; do echo "$1" >> "$(dirname "$0")/arguments"; shift; done\n'
        f'cp -r "{made}"/. "$2"',
    )
    record = tofinobuild.compile_tofino(chip, ["LANES=8", "EGRESS_LANES=4"], tmp_path / "build")
    assert json.loads((tmp_path / "build" / f"{chip.name}.json").read_text()) == record
    assert record["compiler"] == "9.13.4"
    assert record["sources_sha256"] == sources_sha256("libra_tna.p4")
    assert (record["lanes"], record["layout"]["lanes"], record["stages_ingress"]) == (8, 8, 5)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[:6] == ["--std", "p4-16", "--target", chip.name, "--arch", chip.arch]
    assert arguments[-2:] == ["-DLANES=8", "-DEGRESS_LANES=4"]
    program = TofinoProgram.load(chip.name, tmp_path / "build")
    assert (program.p4_name, program.chip, program.layout.lanes) == ("libra_tna", chip, 8)


def test_both_chips_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make tofino` builds a program for each; `--target` one alone."""
    made = write_reports(write_output(tmp_path / "made"))
    install(
        tmp_path,
        monkeypatch,
        f'echo "$4" >> "{tmp_path}/targets"\nwhile [ "$1" != -o ]; do shift; done\n'
        f'cp -r "{made}"/. "$2"',
    )
    monkeypatch.setattr(tofinobuild, "BUILD_DIR", tmp_path / "build")
    for arguments, built in (([], ["tofino", "tofino2"]), (["--target", "tofino2"], ["tofino2"])):
        (tmp_path / "targets").unlink(missing_ok=True)
        monkeypatch.setattr("sys.argv", ["tofinobuild", *arguments])
        assert tofinobuild.main() == 0
        assert (tmp_path / "targets").read_text().split() == built
        assert capsys.readouterr().out.count('"sources_sha256"') == len(built)


def test_a_compiler_for_one_chip_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the target that it does not know."""
    script = tmp_path / "bf-p4c"
    script.write_text("#!/bin/sh\necho tofino-tna\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    assert tofinobuild.find_compiler(TOFINO) == "bf-p4c"
    with pytest.raises(CompilerMissing, match="knows the target tofino2"):
        tofinobuild.find_compiler(TOFINO2)


def test_a_driver_that_writes_no_conf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The back end's tool for it is called with the name and the pipes of the program."""
    made = write_reports(write_output(tmp_path / "made"))
    conf = (made / "libra_tna.conf").rename(tmp_path / "kept")
    install(tmp_path, monkeypatch, f'while [ "$1" != -o ]; do shift; done\ncp -r "{made}"/. "$2"')
    with pytest.raises(CompilerMissing, match="p4c-gen-conf is not on PATH"):
        tofinobuild.compile_tofino(TOFINO, [], tmp_path / "build")
    tool = tmp_path / "p4c-gen-conf"
    out = tmp_path / "build" / "tofino"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > "{tmp_path}/told"\ncp "{conf}" "{out}/libra_tna.conf"\n'
    )
    tool.chmod(0o755)
    tofinobuild.compile_tofino(TOFINO, [], tmp_path / "build")
    told = (tmp_path / "told").read_text()
    assert f"--name libra_tna --bfrt-name {out}/bf-rt.json --outputdir {out}" in told
    assert told.endswith("--pipe pipe --max-pipe 4\n")


FIGURES = {
    "tofino": {
        "stages_ingress": 12,
        "stages_egress": 12,
        "stateful_alus": 12 * 4,
        "sram_blocks": 12 * 80,
        "tcam_blocks": 12 * 24,
        "phv_bits": 64 * 32 + 96 * 16 + 64 * 8,
    },
    "tofino2": {
        "stages_ingress": 20,
        "stages_egress": 20,
        "stateful_alus": 20 * 4,
        "sram_blocks": 20 * 80,
        "tcam_blocks": 20 * 24,
        "phv_bits": 80 * 32 + 120 * 16 + 80 * 8,
    },
}
"""What a record says of the program, and what a pipe of the chip has of it."""


@pytest.fixture(params=list(CHIPS))
def name(request: pytest.FixtureRequest) -> str:
    """Of a chip and its record."""
    return str(request.param)


def test_the_record_has_every_figure(name: str) -> None:
    """Compiler, sources, lanes, and what the program takes of a pipe, within what there is."""
    record = json.loads((BUILD_DIR / f"{name}.json").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+ \([0-9a-f]+\)", record["compiler"])
    assert re.fullmatch(r"[0-9a-f]{64}", record["sources_sha256"])
    assert record["lanes"] >= 16 and record["defines"] == []
    for figure, available in FIGURES[name].items():
        assert type(record[figure]) is int and 0 < record[figure] <= available, figure


def test_the_page_has_the_figures_of_the_records() -> None:
    """The rows of the committed programs, the size of the header vector, and the description."""
    page = (DOCS / "tofino.md").read_text()
    rows = [line for line in page.splitlines() if "(committed)" in line]
    for name, row in zip(FIGURES, rows, strict=True):
        record = json.loads((BUILD_DIR / f"{name}.json").read_text())
        cells = row.split("|", 2)[2]
        found = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", cells)]
        assert found == [record[figure] for figure in FIGURES[name]]
        assert record["compiler"].split()[0] in page
        assert record["layout"] == asdict(layout_of(record["lanes"]))
    record = json.loads((BUILD_DIR / "tofino.json").read_text())
    (layout,) = re.findall(
        r"^\{\"layout\": .*$", (DOCS / "deploy-tofino.md").read_text(), re.MULTILINE
    )
    assert json.loads(layout) == {"layout": record["layout"]}


def test_the_committed_figures_are_of_the_committed_program(name: str) -> None:
    """A record of other sources fails here, as a stale artifact does."""
    record = json.loads((BUILD_DIR / f"{name}.json").read_text())
    assert record["sources_sha256"] == sources_sha256("libra_tna.p4"), "run `make tofino`"
    assert record["lanes"] == record["layout"]["lanes"]
    p4info = (BUILD_DIR / f"{name}.p4info.txtpb").read_bytes()
    assert record["p4info_sha256"] == sha256(p4info), "run `make tofino`"
