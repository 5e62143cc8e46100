"""A folder as p4c's Tofino back end leaves it, small enough to look at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from controller.artifacts import BUILD_DIR
from controller.targets.ports import TOFINO, Chip

P4INFO = 'pkg_info { arch: "tna" }\n'


def read_p4info(chip: Chip = TOFINO) -> p4i.P4Info:
    """The committed description of libra_tna.p4 for a chip."""
    text = (BUILD_DIR / f"{chip.name}.p4info.txtpb").read_text()
    return text_format.Parse(text, p4i.P4Info())


def write_compiled(folder: Path, chip: Chip = TOFINO) -> Path:
    """Write record and output of the committed program into a folder; the binary stands in.

    bf-rt.json names the objects of the P4Info, as that of the compiler does.
    """
    out = write_output(folder / chip.name)
    shutil.copy(BUILD_DIR / f"{chip.name}.json", folder)
    shutil.copy(BUILD_DIR / f"{chip.name}.p4info.txtpb", out / "p4info.txtpb")
    names = object_names(read_p4info(chip))
    tables = [{"name": f"pipe.{name}", "id": number} for number, name in names.items()]
    (out / "bf-rt.json").write_text(json.dumps({"schema_version": "1.0.0", "tables": tables}))
    return folder


def object_names(p4info: p4i.P4Info) -> dict[int, str]:
    """Ids and names of what a server has to find in bf-rt.json: tables, counters, registers."""
    return {
        item.preamble.id: item.preamble.name
        for objects in (p4info.tables, p4info.counters, p4info.registers)
        for item in objects
    }


def write_output(folder: Path, **changes: Any) -> Path:
    """Write an output folder; `changes` replace fields of the program in the .conf file."""
    pipe = folder / "pipe"
    pipe.mkdir(parents=True)
    (pipe / "context.json").write_bytes(b'{"c":1}')
    (pipe / "tofino.bin").write_bytes(b"\x00\xff\x01")
    (folder / "bf-rt.json").write_bytes(b'{"b":2}')
    (folder / "p4info.txtpb").write_text(P4INFO)
    program = {
        "program-name": "libra_tna",
        "bfrt-config": "/build/out/bf-rt.json",
        "p4_pipelines": [
            {
                "p4_pipeline_name": "pipe",
                "context": "/build/out/pipe/context.json",
                "config": "/build/out/pipe/tofino.bin",
                "pipe_scope": [0, 1],
                "path": "/build/out",
            }
        ],
        **changes,
    }
    conf = {"chip_list": [], "p4_devices": [{"device-id": 0, "p4_programs": [program]}]}
    (folder / "libra_tna.conf").write_text(json.dumps(conf))
    return folder
