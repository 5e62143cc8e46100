"""`make tofino`: compile the program for Tofino 1 and 2, and record what it takes of each.

The compiler's output goes to `p4src/build/tofino/` and `tofino2/`, which are not committed. The
records `tofino.json` and `tofino2.json` beside them are, with the P4Infos: sources, compiler,
layout, figures and what the controller writes by belong together.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from controller.artifacts import BUILD_DIR, SOURCE_DIR, sha256, sources_sha256
from controller.p4build import CompilerFailed, CompilerMissing, layout_of
from controller.targets.ports import CHIPS, PIPES, Chip
from controller.targets.tofino_output import RECORD
from controller.tofino_report import read_chip_use
from host_stack.errors import BadInput, LibraError
from host_stack.jsonfile import read_json_object

COMPILERS = ("bf-p4c", "p4c")
CONF_WRITER = "p4c-gen-conf"
PROGRAM = "libra_tna.p4"
P4INFO = "p4info.txtpb"
LANES = 16

_DEFINE = re.compile(r"(LANES|EGRESS_LANES)=(\d{1,2})")


def find_compiler(chip: Chip) -> str:
    """The driver of the chip's back end on PATH; `CompilerMissing` if there is none."""
    for name in COMPILERS:
        known = _said([name, "--target-help"]) if shutil.which(name) else ""
        if re.search(rf"\b{chip.name}\b", known):
            return name
    raise CompilerMissing(
        f"p4c's Tofino back end is not on PATH (bf-p4c, or p4c that knows the target {chip.name}); "
        "build it from p4c's sources with ENABLE_TOFINO (docs/deploy-tofino.md, section 2)"
    )


def command(compiler: str, chip: Chip, out: Path, defines: list[str]) -> list[str]:
    """How the program is compiled for a chip into the folder `out`."""
    return [
        compiler,
        "--std",
        "p4-16",
        "--target",
        chip.name,
        "--arch",
        chip.arch,
        "-g",
        "--bf-rt-schema",
        str(out / "bf-rt.json"),
        "--p4runtime-files",
        str(out / P4INFO),
        "--p4runtime-force-std-externs",
        *(f"-D{define}" for define in defines),
        "-o",
        str(out),
        str(SOURCE_DIR / PROGRAM),
    ]


def compile_tofino(chip: Chip, defines: list[str], folder: Path = BUILD_DIR) -> dict[str, Any]:
    """Compile the program for a chip and write the record.

    `CompilerFailed` shows the compiler's words, `BadInput` says which macros there are.
    """
    lanes = lanes_of(defines)
    compiler = find_compiler(chip)
    out = folder / chip.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    done = subprocess.run(
        command(compiler, chip, out, defines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip()
        raise CompilerFailed(f"{compiler} failed on {PROGRAM} for {chip.title}:\n{said}")
    try:
        record = record_of(out, defines, lanes)
    except BadInput:
        for conf in out.glob("*.conf"):
            conf.unlink()  # so that nobody loads by an older record what is refused here
        raise
    if not list(out.glob("*.conf")):
        write_conf(chip, out)
    shutil.copy(out / P4INFO, folder / f"{chip.name}.{P4INFO}")
    for path in (out / RECORD, folder / f"{chip.name}.json"):
        path.write_text(json.dumps(record, indent=2) + "\n")
    return record


def lanes_of(defines: list[str]) -> int:
    """The lanes of a program that is compiled with macros; `BadInput` for other macros."""
    found = {"LANES": LANES}
    for each in defines:
        if (parts := _DEFINE.fullmatch(each)) is None:
            raise BadInput(f"macro {each!r}: allowed are LANES=NUMBER and EGRESS_LANES=NUMBER")
        found[parts[1]] = int(parts[2])
    return found["LANES"]


def write_conf(chip: Chip, out: Path) -> None:
    """Let the back end's own tool write the .conf file, which not every driver of it calls."""
    arguments = [
        *(CONF_WRITER, "--conf-type", "BF-RT", "--p4-version", "p4-16", "--device", chip.name),
        *("--name", Path(PROGRAM).stem, "--bfrt-name", str(out / "bf-rt.json")),
        *("--outputdir", str(out), "--pipe", "pipe", "--max-pipe", str(PIPES)),
    ]
    if shutil.which(CONF_WRITER) is None:
        raise CompilerMissing(
            f"{CONF_WRITER} is not on PATH; it is among the scripts of p4c's Tofino back end"
        )
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilerFailed(f"{CONF_WRITER} failed:\n{done.stderr.strip()}")


def record_of(out: Path, defines: list[str], lanes: int) -> dict[str, Any]:
    """What is committed of a compiled program: its sources, compiler, layout and figures."""
    manifest = read_json_object(out / "manifest.json", "manifest of the Tofino back end")
    layout = layout_of(lanes)
    return {
        "compiler": str(manifest.get("compiler_version", "unknown")),
        "sources_sha256": sources_sha256(PROGRAM),
        "p4info_sha256": sha256((out / P4INFO).read_bytes()),
        "defines": defines,
        "lanes": lanes,
        **dataclasses.asdict(read_chip_use(out)),
        "layout": dataclasses.asdict(layout),
    }


def _said(arguments: list[str]) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> int:
    """Compile and print the records; one line of what went wrong, and 1, if that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-D",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="LANES or EGRESS_LANES",
    )
    parser.add_argument(
        "--target",
        dest="targets",
        action="append",
        choices=list(CHIPS),
        help="one chip alone (default: both)",
    )
    options = parser.parse_args()
    try:
        for name in options.targets or CHIPS:
            record = compile_tofino(CHIPS[name], options.defines, BUILD_DIR)
            sys.stdout.write(json.dumps(record, indent=2) + "\n")
    except LibraError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
