"""Target `programs`: bmv2 JSON files. Each is translated or refused with a SoftSwitchError."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from softswitch.codegen import generate
from softswitch.compiler import build
from softswitch.dataplane import DataPlane
from softswitch.errors import BadProgram, SoftSwitchError, UnsupportedConstruct
from softswitch.load import load_program
from softswitch.program import Program
from tests.fuzz.mutate import mutate_bytes, mutate_json

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "p4", TESTS / "conformance" / "programs")
COMPILE_EVERY = 40
"""One in so many programs that are accepted is compiled and run as well."""


class Programs:
    """Mutates the compiled programs of other tests and those of the corpus."""

    def __init__(self, rng: random.Random, corpus: list[bytes]) -> None:
        self._rng = rng
        files = [path for folder in FOLDERS for path in sorted(folder.glob("*.json"))]
        self._seeds = [path.read_bytes() for path in files] + corpus
        self.reached = 0
        """Programs that were accepted."""

    def inputs(self) -> Iterator[bytes]:
        """Return mutated files without end."""
        while True:
            seed = self._rng.choice(self._seeds)
            if self._rng.random() < 0.05:
                yield mutate_bytes(self._rng, seed, self._seeds, 1 << 22)
            else:
                yield json.dumps(mutate_json(self._rng, json.loads(seed))).encode()

    def run(self, data: bytes) -> None:
        """Translate a file; anything but success and a typed refusal raises."""
        try:
            program = load_program(data)
            source = generate(program)
        except (BadProgram, UnsupportedConstruct) as error:
            check_message(error)
            return
        self.reached += 1
        if self.reached % COMPILE_EVERY == 0:
            self._try(program, source)

    def close(self) -> None:
        """Nothing is kept."""

    def _try(self, program: Program, source: str) -> None:
        """Generated C is always valid C; frames run through it, with sanitizers."""
        with tempfile.TemporaryDirectory() as folder:
            library = build(source, Path(folder, "cache"), sanitize=True)
            try:
                switch = DataPlane(program, library)
            except SoftSwitchError as error:
                check_message(error)
                return
            with switch:
                for size in range(64):
                    switch.inject(size % 4, self._rng.randbytes(size))


def check_message(error: SoftSwitchError) -> None:
    """A refusal is one line that says something."""
    text = str(error)
    assert text, "an error without a message"
