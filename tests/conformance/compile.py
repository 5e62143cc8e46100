"""Compiles the programs of this folder: `python -m tests.conformance.compile`.

Needs p4c-bm2-ss. Beside each NAME.p4 comes NAME.json, without source positions; sources.json holds
the SHA-256 of each program and of what it includes, and the version of the compiler.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

from controller.p4build import without_source_info
from softswitch.stf.programs import P4Compiler, find_cases

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = PROGRAMS / "sources.json"
_LOCAL_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def source_digest(source: Path) -> str:
    """Return the SHA-256 of a program and of the files that it includes from its folder."""
    text = source.read_text()
    parts = [text, *((source.parent / name).read_text() for name in _LOCAL_INCLUDE.findall(text))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def main(names: list[str]) -> None:
    """Compile the programs with these names, or those whose source has changed."""
    known = json.loads(SOURCES.read_text()) if SOURCES.exists() else {"programs": {}}
    cases = {c.name: c for c in find_cases(PROGRAMS, recursive=False, prefer_source=True)}
    digests = {name: source_digest(PROGRAMS / f"{name}.p4") for name in cases}
    with tempfile.TemporaryDirectory() as scratch:
        compiler = P4Compiler("p4c-bm2-ss", Path(scratch))
        for name, case in cases.items():
            if name not in names and known["programs"].get(name) == digests[name]:
                continue
            program = without_source_info(json.loads(compiler.compile(case).read_bytes()))
            program["program"] = f"{name}.p4"
            text = json.dumps(program, separators=(",", ":"))
            (PROGRAMS / f"{name}.json").write_text(text + "\n")
            print(name)
    known = {"p4c": compiler.version(), "programs": digests}
    SOURCES.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
