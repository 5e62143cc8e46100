"""A fixed part of the fuzzing of tests/fuzz, and what once failed there."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from softswitch.errors import BadProgram
from softswitch.load import load_program
from tests.fuzz.mutate import mutate_bytes, mutate_json
from tests.fuzz.run import CORPUS, TARGETS, run_target, save
from tests.sanitized import sanitizer_library

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads the sanitizers"),
]

COUNTS = {"packets": 15_000, "programs": 600, "messages": 2_000}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_fails(name: str) -> None:
    """A run of each target with a fixed seed, the same every time."""
    if name != "messages" and sanitizer_library() is None:
        pytest.skip("the compiler has no address sanitizer")
    outcome = run_target(name, seed=1, count=COUNTS[name])
    assert outcome.failed is None, outcome.report[-4000:]
    assert outcome.tried == COUNTS[name]
    assert outcome.reached > 40


@pytest.mark.parametrize("path", sorted((CORPUS / "programs").iterdir()), ids=lambda p: p.stem)
def test_programs_that_once_failed_are_refused(path: Path) -> None:
    """Each was an exception that nobody expects, or C that does not compile."""
    with pytest.raises(BadProgram):
        load_program(path.read_bytes())


def test_what_fails_is_kept(tmp_path: Path) -> None:
    """A target that ends badly gives the input on which it did, and the reason."""
    bad = tmp_path / "input"
    bad.write_bytes(b"[" * 100)
    outcome = run_target("messages", seed=1, inputs=[bad])
    assert outcome.failed is None
    outcome = run_target("messages", seed=1, inputs=[bad, tmp_path / "none"])
    assert outcome.failed == b""
    assert "FileNotFoundError" in outcome.report
    assert save("x", b"abc", tmp_path).read_bytes() == b"abc"


def test_mutations_are_functions_of_the_seed() -> None:
    """The same seed makes the same inputs, bounded in length, and JSON stays JSON."""
    for seed in range(200):
        pair = [random.Random(seed) for _ in range(2)]
        first, second = (mutate_bytes(rng, b"abcdef", [b"xyz"], 20) for rng in pair)
        assert first == second
        assert len(first) <= 20
        documents = [{"a": [1, "b", {"c": None}], "d": True} for _ in range(2)]
        one, two = (mutate_json(rng, d) for rng, d in zip(pair, documents, strict=True))
        assert json.dumps(one) == json.dumps(two)
