"""A folder as p4c's Tofino back end leaves it, small enough to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

P4INFO = 'pkg_info { arch: "tna" }\n'


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
