"""What p4c's Tofino back end leaves behind: the binary of each pipe, and descriptions of it.

`<program>.conf` in the output folder says which files belong together, in the form that
bf_switchd reads; `make tofino` makes such a folder (docs/deploy-tofino.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from controller.artifacts import BUILD_DIR, sha256
from controller.targets.ports import PIPES, Chip, chip_with
from host_stack.errors import BadInput
from host_stack.jsonfile import read_json_object
from host_stack.layout import Layout

RECORD = "record.json"
"""In the output, a copy of the record that `make tofino` made of it."""

MAX_FILE_BYTES = 256 << 20
"""Of one file of the compiler's; a context.json of a full chip has some tens of megabytes."""


@dataclass(frozen=True)
class Profile:
    """What some pipes of the chip run.

    Attributes:
        name: of the pipeline in the P4 program.
        context: context.json.
        binary: tofino.bin (or tofino2.bin).
        pipes: numbers of the pipes.
    """

    name: str
    context: bytes
    binary: bytes
    pipes: tuple[int, ...]


@dataclass(frozen=True)
class TofinoProgram:
    """A program that was compiled for Tofino.

    Attributes:
        name: of the record in `p4src/build/`.
        p4_name: of the program, as the compiler has it.
        chip: that it was compiled for, by the architecture in its P4Info.
        p4info: P4Info in text form.
        layout: LANES, rows, W and program version.
        bfrt_info: bf-rt.json.
        profiles: one for each set of pipes that runs something of its own.
    """

    name: str
    p4_name: str
    chip: Chip
    p4info: str
    layout: Layout
    bfrt_info: bytes
    profiles: tuple[Profile, ...]

    @classmethod
    def load(cls, name: str, folder: Path = BUILD_DIR) -> TofinoProgram:
        """Read the record `name`.json and the compiler's output in the folder `name` beside it."""
        record = read_json_object(
            folder / f"{name}.json", "record of a Tofino program (`make tofino` makes one)"
        )
        if "layout" not in record:
            raise BadInput(f"{folder / name}.json records no Tofino program: it has no layout")
        program = cls.read(folder / name, name, Layout.from_fields(record["layout"]))
        made = folder / name / RECORD
        if record.get("p4info_sha256") not in (None, sha256(program.p4info.encode())) or (
            made.exists() and read_json_object(made, "record of a Tofino program") != record
        ):
            raise BadInput(
                f"{folder / name} is not the output that {name}.json records: run `make tofino` "
                "again, with the same options"
            )
        return program

    @classmethod
    def read(cls, folder: Path, name: str, layout: Layout) -> TofinoProgram:
        """Read the output folder of the compiler; `BadInput` if it is not there or not whole."""
        found = sorted(folder.glob("*.conf"))
        if len(found) != 1:
            raise BadInput(
                f"{folder} holds {len(found)} files *.conf, and one is needed: compile the program "
                "with `make tofino`, which needs p4c's Tofino back end"
            )
        conf = read_json_object(found[0], "configuration of the Tofino back end")
        try:
            program = _only(_only(conf["p4_devices"])["p4_programs"])
            profiles = tuple(_profile(folder, each) for each in program["p4_pipelines"])
            if not profiles:
                raise ValueError("it names no pipeline")
            p4_name = _text(program["program-name"])
            bfrt_info = _bytes(folder, program["bfrt-config"])
            p4info = _bytes(folder, "p4info.txtpb").decode()
            chip = chip_with(_arch(p4info))
        except (BadInput, KeyError, TypeError, ValueError, OSError) as error:
            raise BadInput(f"{found[0]} does not describe a compiled program: {error}") from error
        return cls(name, p4_name, chip, p4info, layout, bfrt_info, profiles)


def _arch(p4info: str) -> str:
    try:
        return text_format.Parse(p4info, p4i.P4Info()).pkg_info.arch
    except text_format.ParseError as error:
        raise ValueError(f"p4info.txtpb is no P4Info: {error}") from error


def _only(items: Any) -> Any:
    if not isinstance(items, list) or len(items) != 1:
        raise ValueError(f"one device with one program is needed, not {items!r:.80}")
    return items[0]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.80} is no name")
    return value


def _profile(folder: Path, fields: Any) -> Profile:
    pipes = fields["pipe_scope"]
    if not isinstance(pipes, list) or not all(
        type(pipe) is int and 0 <= pipe < PIPES for pipe in pipes
    ):
        raise ValueError(f"pipe_scope {pipes!r:.80}: allowed are pipes 0 to {PIPES - 1}")
    return Profile(
        _text(fields["p4_pipeline_name"]),
        _bytes(folder, fields["context"]),
        _bytes(folder, fields["config"]),
        tuple(pipes),
    )


def _bytes(folder: Path, path: Any) -> bytes:
    """A file of the output: the compiler writes paths as they were given to it.

    Only the end of the path counts, so that a folder can be moved: its file, or its file in the
    folder of the pipeline.
    """
    named = Path(_text(path))
    if ".." in named.parts:
        raise ValueError(f"{named}: `..` is not allowed in paths")
    for found in (folder / named.name, folder / named.parent.name / named.name):
        if found.is_file():
            if found.stat().st_size > MAX_FILE_BYTES:
                raise ValueError(f"{found} is larger than {MAX_FILE_BYTES >> 20} MiB")
            return found.read_bytes()
    raise ValueError(f"{named.name} is not in {folder}")
