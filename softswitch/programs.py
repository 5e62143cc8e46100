"""A program from its bmv2 JSON, translated and compiled, or from the cache.

Beside the compiled library the cache keeps, by the SHA-256 of the JSON and of everything that
translates it, which library that is and the program's *interface*: its JSON without the bodies of
actions, parsers and pipelines, which the library has and the control plane does not ask for. A
start from the cache reads the interface alone. Like libraries, interfaces are sealed: a damaged
file is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from softswitch.codegen import generate
from softswitch.compiler import build, build_key, cached_library, open_cache
from softswitch.load import load_program
from softswitch.program import Program

_SEAL_BYTES = 64
_PACKAGE = Path(__file__).parent


def compile_program(
    bmv2_json: bytes, cache_dir: Path | None = None, *, sanitize: bool = False
) -> tuple[Program, Path]:
    """Return a program and its compiled library.

    From the cache, the program has its interface only: tables, actions without primitives, arrays.
    Raises BadProgram, UnsupportedConstruct, NoCompiler.
    """
    directory = open_cache(cache_dir)
    key = hashlib.sha256(f"{build_key(sanitize=sanitize)} {_translator()} ".encode() + bmv2_json)
    entry = directory / f"{key.hexdigest()}.program"
    known = _read(entry)
    if known is not None:
        name, bodiless = known
        library = cached_library(directory, name)
        if library is not None:
            return load_program(bodiless), library
    program = load_program(bmv2_json)
    library = build(generate(program), cache_dir, sanitize=sanitize)
    _write(entry, library.name, interface(json.loads(bmv2_json)))
    return program, library


def interface(program: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a valid program without what runs: a valid program with the same tables."""
    result = program | {
        "actions": [action | {"primitives": []} for action in program["actions"]],
        "parsers": [p | {"init_state": None, "parse_states": []} for p in program["parsers"]],
        "deparsers": [d | {"order": [], "primitives": []} for d in program["deparsers"]],
        "checksums": [],
        "pipelines": [_without_flow(pipeline) for pipeline in program["pipelines"]],
    }
    if program.get("parse_vsets"):
        result["parsers"] = program["parsers"]  # they say how the bits of a set are divided
    if not any(p.get("action_profiles") for p in program["pipelines"]):
        result["calculations"] = []  # else those of selectors are looked up
    return result


def _without_flow(pipeline: dict[str, Any]) -> dict[str, Any]:
    tables = [
        table
        | {
            "next_tables": dict.fromkeys(table["actions"]),
            "base_default_next": None,
        }
        for table in pipeline["tables"]
    ]
    return pipeline | {
        "init_table": None,
        "tables": tables,
        "conditionals": [],
        "action_calls": [],
    }


@cache
def _translator() -> str:
    """A hash of this package's own code that turns JSON into C and into a `Program`."""
    digest = hashlib.sha256()
    folders = [_PACKAGE / "load", _PACKAGE / "codegen"]
    paths = [path for folder in folders for path in folder.glob("*.py")]
    for path in sorted(
        [*paths, *(_PACKAGE / f"{name}.py" for name in ("ir", "program", "programs"))]
    ):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE)} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _read(entry: Path) -> tuple[str, bytes] | None:
    """Return the library's name and the interface, None if there are none or they are not whole."""
    try:
        sealed = entry.read_bytes()
    except OSError:
        return None
    content = sealed[_SEAL_BYTES:]
    if sealed[:_SEAL_BYTES] != hashlib.sha256(content).hexdigest().encode():
        return None
    name, _, bodiless = content.partition(b"\n")
    return name.decode(), bodiless


def _write(entry: Path, library: str, bodiless: dict[str, Any]) -> None:
    content = f"{library}\n{json.dumps(bodiless, separators=(',', ':'))}".encode()
    handle, made = tempfile.mkstemp(dir=entry.parent, prefix="build-")
    with os.fdopen(handle, "wb") as file:
        file.write(hashlib.sha256(content).hexdigest().encode() + content)
    os.replace(made, entry)
