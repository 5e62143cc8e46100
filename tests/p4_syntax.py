"""The part of P4-16 that libra_tna.p4 is written in, as trees: enough to run it (tests/p4_run.py).

Expressions and statements are tuples, the first item of which says what they are;
tests/p4_parse.py makes them.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Tree = tuple[Any, ...]

_INCLUDES = ("core.p4", "tna.p4", "t2na.p4")


@dataclass
class Table:
    """A table: keys (expression, kind), entries of the program, and what happens by default."""

    name: str
    keys: list[tuple[Tree, str]] = field(default_factory=list)
    entries: list[tuple[list[Tree], Tree]] = field(default_factory=list)
    default: Tree = ("call", ("name", "NoAction"), [])
    size: Tree | None = None


@dataclass
class Block:
    """A parser or a control: what it declares, by name, and what it does.

    Attributes:
        params: (direction, type, name).
        actions: params and body. registers: type of the cell. counters: their names.
        register_actions: register, params and body. instances: type.
        local: (type, name) of variables. states: of a parser.
    """

    name: str
    params: list[tuple[str, Tree, str]]
    actions: dict[str, tuple[list[Any], list[Tree]]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    registers: dict[str, tuple[Tree, Tree]] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)
    register_actions: dict[str, tuple[str, list[Any], list[Tree]]] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    local: list[tuple[Tree, str]] = field(default_factory=list)
    states: dict[str, list[Tree]] = field(default_factory=dict)
    body: list[Tree] = field(default_factory=list)
    public: dict[str, str] = field(default_factory=dict)
    """Names by which the control plane knows actions and tables, where it has others."""


@dataclass
class Source:
    """What a program declares; the last two constructor calls of it are left out."""

    consts: dict[str, tuple[Tree, Tree]] = field(default_factory=dict)
    types: dict[str, Tree] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)


def preprocess(path: Path, *defines: str) -> str:
    """A program without its comments and macros; what it includes of the compiler is empty."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _INCLUDES:
            (Path(folder) / name).touch()
        command = ["cc", "-E", "-P", "-undef", "-nostdinc", "-x", "c", f"-I{folder}"]
        command += [f"-D{each}" for each in defines]
        return subprocess.run(
            [*command, str(path)], capture_output=True, text=True, check=True
        ).stdout
