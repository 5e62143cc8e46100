"""`make p4`: compile the switch programs and commit-ready artifacts of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller.artifacts import (
    BUILD_DIR,
    PROGRAMS,
    SOURCE_DIR,
    STEP_DEFINES,
    STEP_LANES,
    STEP_PROGRAM,
    sha256,
    sources_sha256,
)
from host_stack.errors import LibraError
from host_stack.layout import Layout

COMPILER = "p4c-bm2-ss"


class CompilerMissing(LibraError):
    """p4c is not installed."""


class CompilerFailed(LibraError):
    """p4c refused the program."""


def compiler_version() -> str:
    """What `p4c-bm2-ss --version` says; `CompilerMissing` if it is not on PATH."""
    if shutil.which(COMPILER) is None:
        raise CompilerMissing(
            f"{COMPILER} is not on PATH; install the package p4lang-p4c of the P4 consortium's "
            "repository for Debian and Ubuntu (README, section “Compiler and bmv2”)"
        )
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\d+\.\d+\.\d+(\.\d+)?[^\s)]*", done.stdout + done.stderr)
    return f"{COMPILER} {found.group(0) if found else 'unknown'}"


def layout_of(lanes: int) -> Layout:
    """The layout that `include/config.p4` describes."""
    text = (SOURCE_DIR / "include" / "config.p4").read_text()

    def defined(name: str) -> int:
        found = re.search(rf"^#define {name} (\d+)$", text, re.MULTILINE)
        if found is None:
            raise CompilerFailed(f"config.p4 does not define {name} as a number")
        return int(found.group(1))

    return Layout(
        lanes=lanes,
        rows=1 << defined("ROW_BITS"),
        window=1 << defined("WINDOW_BITS"),
        program=defined("PROGRAM_VERSION"),
    )


def compile_program(
    name: str, lanes: int, folder: Path = BUILD_DIR, defines: Iterable[str] = ()
) -> None:
    """Compile libra.p4 with `lanes` lanes and macros into `folder`.

    `CompilerFailed` shows p4c's words.
    """
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        done = subprocess.run(
            [
                COMPILER,
                "--std",
                "p4-16",
                f"-DLANES={lanes}",
                *(f"-D{define}" for define in defines),
                "--p4runtime-files",
                str(made / "program.p4info.txtpb"),
                "-o",
                str(made / "program.json"),
                str(SOURCE_DIR / "libra.p4"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CompilerFailed(f"{COMPILER} failed on libra.p4:\n{done.stderr.strip()}")
        program = json.loads((made / "program.json").read_text())
        p4info = (made / "program.p4info.txtpb").read_bytes()
    program["program"] = "libra.p4"
    text = json.dumps(without_source_info(program), separators=(",", ":")).encode() + b"\n"
    build = {
        "compiler": compiler_version(),
        "sources_sha256": sources_sha256(),
        "layout": asdict(layout_of(lanes)),
        "artifacts": {f"{name}.json": sha256(text), f"{name}.p4info.txtpb": sha256(p4info)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(text)
    (folder / f"{name}.p4info.txtpb").write_bytes(p4info)
    (folder / f"{name}.build.json").write_text(json.dumps(build, indent=2) + "\n")


def without_source_info(node: Any) -> Any:
    """The same JSON without `source_info`, which doubles its size and names paths."""
    if isinstance(node, dict):
        return {k: without_source_info(v) for k, v in node.items() if k != "source_info"}
    if isinstance(node, list):
        return [without_source_info(item) for item in node]
    return node


def main() -> int:
    """Compile every program; one line of what went wrong, and 1, if that fails."""
    try:
        version = compiler_version()
        programs = [(name, lanes, ()) for name, lanes in PROGRAMS.items()]
        for name, lanes, defines in (*programs, (STEP_PROGRAM, STEP_LANES, STEP_DEFINES)):
            compile_program(name, lanes, defines=defines)
            size = (BUILD_DIR / f"{name}.json").stat().st_size
            sys.stdout.write(f"{name}: {lanes} lanes, {size / 1e6:.1f} MB, {version}\n")
    except LibraError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
