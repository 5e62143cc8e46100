"""The bench of the cold path, in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench" / "kv.py"


def bench(path: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a user does."""
    environment = {k: v for k, v in os.environ.items() if k != "PSLITE_DIR"} | variables
    argv = [sys.executable, str(BENCH), "--json", str(path), *options]
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=250, check=False
    )


def check(path: Path, sizes: list[int], *, beside: bool) -> None:
    """The results are complete, and name what is missing with null."""
    record = json.loads(path.read_text())
    assert record["schema"] == 1
    assert record["conditions"]["cores"] > 0
    fields = ("servers", "keys", "direction", "keys_again")
    found = [tuple(result[field] for field in fields) for result in record["results"]]
    assert found == list(product((1, 2), sizes, ("push", "pull"), (True, False)))
    for result in record["results"]:
        assert result["ours_s"] > 0
        assert result["turns"] == 2
        assert (result["pslite_s"] is not None) == beside
        assert (result["ratio"] is not None) == beside


def test_sizes_servers_and_directions_are_measured(tmp_path: Path) -> None:
    """Without the C++ library its fields are null."""
    path = tmp_path / "kv.json"
    done = bench(path, "--keys", "1000", "3000", "--servers", "1", "2", "--turns", "2")
    assert done.returncode == 0, done.stderr
    check(path, [1000, 3000], beside=False)


@pytest.mark.skipif("PSLITE_DIR" not in os.environ, reason="PSLITE_DIR names no build of ps-lite")
def test_the_cpp_library_takes_turns_with_ours(tmp_path: Path) -> None:
    """Both are measured in one run."""
    path = tmp_path / "kv.json"
    options = ("--keys", "1000", "--servers", "1", "2", "--turns", "2")
    done = bench(path, *options, PSLITE_DIR=os.environ["PSLITE_DIR"])
    assert done.returncode == 0, done.stderr
    check(path, [1000], beside=True)


def test_help_tells_units_and_defaults() -> None:
    """Of what is measured, and of each option."""
    done = subprocess.run(
        [sys.executable, str(BENCH), "--help"], capture_output=True, text=True, check=True
    )
    told = " ".join(done.stdout.split())
    for words in (
        "until it is answered, in milliseconds (in FILE in seconds)",
        "a float32 each, in all (default: 100000 1000000 10000000)",
        "processes that share them (default: 1 2 4)",
        "one more goes before (default: 9)",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        (("--keys", "0"), {}, "must be 1 or more"),
        (("--keys", "9"), {"PSLITE_DIR": "/nowhere"}, "PSLITE_DIR=/nowhere is no build folder"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, options: tuple[str, ...], variables: dict[str, str], words: str
) -> None:
    """With what was given, and exit code 2."""
    done = bench(tmp_path / "kv.json", *options, **variables)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
