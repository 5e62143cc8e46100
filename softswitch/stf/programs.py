"""Tests of a folder, and the programs that belong to them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from softswitch.errors import SoftSwitchError

COMPILE_TIMEOUT_S = 300
# Unknown externs are for the switch to refuse, by name.
_FLAGS = ("--std", "p4-16", "--emit-externs")
_INCLUDE = re.compile(r"""^\s*#\s*include\s*[<"]([^>"]+)[>"]""", re.MULTILINE)
_HINT = (
    "install p4c (packages of the P4 consortium), name it with --p4c, or compile the programs "
    "elsewhere and put the .json files beside the tests"
)


class CannotCompile(SoftSwitchError):
    """There is no P4 compiler, or it refuses a program."""


@dataclass(frozen=True)
class Case:
    """A test and its program; at least one of `source` and `compiled` is set."""

    name: str
    stf: Path
    source: Path | None
    compiled: Path | None


@dataclass(frozen=True)
class P4Compiler:
    """p4c-bm2-ss; `output` is the folder where compiled programs go and are found again."""

    command: str
    output: Path

    def version(self) -> str | None:
        """Return the version, None when the compiler is not there."""
        if shutil.which(self.command) is None:
            return None
        try:
            result = _run([self.command, "--version"])
        except CannotCompile:
            return None
        words = re.findall(r"[0-9]+(?:\.[0-9]+)+[^\s)]*", result.stdout + result.stderr)
        return words[0] if words else "unknown"

    def compile(self, case: Case) -> Path:
        """Return the compiled program of a case. Raises CannotCompile."""
        if case.compiled is not None:
            return case.compiled
        if case.source is None:
            raise CannotCompile("there is no program beside the test")
        output = self.output / f"{case.name}.json"
        if output.is_file() and output.stat().st_mtime >= case.source.stat().st_mtime:
            return output
        if shutil.which(self.command) is None:
            raise CannotCompile(f"{self.command} is not on PATH: {_HINT}")
        output.parent.mkdir(parents=True, exist_ok=True)
        part = output.with_suffix(".part.json")
        result = _run([self.command, *_FLAGS, "-o", str(part), str(case.source)])
        if result.returncode != 0 or not part.is_file():
            part.unlink(missing_ok=True)
            raise CannotCompile(f"{self.command} refuses the program: {_first_error(result)}")
        part.replace(output)
        return output


def find_cases(folder: Path, *, recursive: bool, prefer_source: bool = False) -> list[Case]:
    """Return the tests of a folder, or the one that `folder` names, by name.

    Raises SoftSwitchError when there are none.
    """
    if folder.is_file() and folder.suffix == ".stf":
        files, base = [folder], folder.parent
    elif folder.is_dir():
        files, base = sorted(folder.rglob("*.stf") if recursive else folder.glob("*.stf")), folder
    else:
        raise SoftSwitchError(f"{folder} is neither a folder nor an .stf file")
    if not files:
        deeper = "" if recursive else " (--recursive looks into its folders too)"
        raise SoftSwitchError(f"{folder} has no .stf files{deeper}")
    return [_case(stf, base, prefer_source=prefer_source) for stf in files]


def _case(stf: Path, base: Path, *, prefer_source: bool) -> Case:
    source, compiled = stf.with_suffix(".p4"), stf.with_suffix(".json")
    has_source = source.is_file()
    return Case(
        name=stf.relative_to(base).with_suffix("").as_posix(),
        stf=stf,
        source=source if has_source else None,
        compiled=compiled if compiled.is_file() and not (prefer_source and has_source) else None,
    )


def not_v1model(case: Case) -> str | None:
    """Return why a program is not for v1model, None when it is or is compiled already."""
    if case.compiled is not None or case.source is None:
        return None
    architectures = {name.removesuffix(".p4") for name in _includes(case.source, set())}
    if "v1model" in architectures:
        return None
    others = sorted(architectures - {"core"})
    return f"written for {', '.join(others) or 'no architecture'}, not for v1model"


def _includes(source: Path, seen: set[Path]) -> set[str]:
    """Return the names of the included files that are not beside the program."""
    seen.add(source.resolve())
    names: set[str] = set()
    for name in _INCLUDE.findall(source.read_text(errors="replace")):
        local = (source.parent / name).resolve()
        if not local.is_file():
            names.add(Path(name).name)
        elif local not in seen:
            names.add(local.name)
            names |= _includes(local, seen)
    return names


def _first_error(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    return errors[0][:300] if errors else f"exit code {result.returncode}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCompile(f"{command[0]} cannot be run: {error}") from None
