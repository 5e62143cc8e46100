"""Compiled switch programs: where they are, what they were made of, whether they are current."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from host_stack.errors import BadInput, LibraError
from host_stack.jsonfile import read_json_object
from host_stack.layout import Layout

SOURCE_DIR = Path(__file__).resolve().parent.parent / "p4src"
BUILD_DIR = SOURCE_DIR / "build"

PROGRAMS = {"libra16": 16, "libra": 32, "libra64": 64}
"""Name of an artifact and its LANES."""

STEP_PROGRAM = "libra_steps"
STEP_LANES = 8
STEP_DEFINES = ("STEP_ALIGN",)
"""The program with the alignment of Tofino (p4src/include/step_align.p4), to be tested."""

_P4INFO = ".p4info.txtpb"
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


class StaleArtifact(LibraError):
    """A committed artifact was not made from the sources beside it."""


@dataclass(frozen=True)
class Artifact:
    """A compiled program.

    Attributes:
        name: file name without endings.
        device_config: the bmv2 JSON.
        p4info: P4Info in text form.
        layout: LANES, rows, W and program version.
        compiler: version of the compiler.
        sources_sha256: of the sources that it was made from.
    """

    name: str
    device_config: bytes
    p4info: str
    layout: Layout
    compiler: str
    sources_sha256: str

    @classmethod
    def load(cls, name: str = "libra", folder: Path = BUILD_DIR) -> Artifact:
        """Read a program from `folder`; `BadInput` if it is not there or not whole."""
        build = read_json_object(
            folder / f"{name}.build.json", "record of a compiled program (`make p4` makes one)"
        )
        try:
            device_config = (folder / f"{name}.json").read_bytes()
            p4info = (folder / f"{name}.p4info.txtpb").read_text()
            for ending, content in ((".json", device_config), (".p4info.txtpb", p4info.encode())):
                if build["artifacts"][name + ending] != sha256(content):
                    raise StaleArtifact(
                        f"{folder / (name + ending)} is not the file that the compiler made; "
                        "run `make p4`"
                    )
            return cls(
                name,
                device_config,
                p4info,
                Layout.from_fields(build["layout"]),
                str(build["compiler"]),
                str(build["sources_sha256"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"no compiled program {name!r} in {folder}: {error}") from error

    def require_current(self) -> None:
        """Raise `StaleArtifact` if the sources have changed since the program was compiled."""
        current = sources_sha256()
        if current != self.sources_sha256:
            raise StaleArtifact(
                f"{self.name}: compiled from sources {self.sources_sha256[:12]}, but "
                f"{SOURCE_DIR} holds {current[:12]}; run `make p4`"
            )


def program_layout(name: str, folder: Path = BUILD_DIR) -> Layout:
    """What the record of a compiled program, for whichever target, says of its sizes.

    `BadInput` names the records that there are, if there is none of that name.
    """
    known = sorted(path.name.removesuffix(_P4INFO) for path in folder.glob(f"*{_P4INFO}"))
    if name not in known:
        raise BadInput(f"program {name!r}: {folder} has {', '.join(known)}")
    record = folder / f"{name}.build.json"  # of a v1model program, whose .json is its code
    if not record.is_file():
        record = folder / f"{name}.json"  # of one for Tofino
    fields = read_json_object(record, "record of a compiled program")
    return Layout.from_fields(fields.get("layout"))


def program_with(lanes: int) -> str:
    """The name of the artifact with so many lanes; `BadInput` lists those that there are."""
    for name, count in PROGRAMS.items():
        if count == lanes:
            return name
    raise BadInput(f"lanes {lanes}: allowed are {', '.join(map(str, PROGRAMS.values()))}")


def sha256(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def source_files(program: str = "libra.p4") -> list[Path]:
    """The P4 sources of a program, in a fixed order: its main file and all that it includes."""
    found: set[Path] = set()
    waiting = [SOURCE_DIR / program]
    while waiting:
        path = waiting.pop()
        if path.is_file() and path not in found:
            found.add(path)
            included = _INCLUDE.findall(path.read_text())
            waiting += [(path.parent / name).resolve() for name in included]
    return sorted(found)


def sources_sha256(program: str = "libra.p4") -> str:
    """One hash of all P4 sources of a program: their names and contents."""
    digest = hashlib.sha256()
    for path in source_files(program):
        digest.update(path.relative_to(SOURCE_DIR).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
